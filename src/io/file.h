// Files: a reader that knows its size, and a writer whose file appears whole or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "calor/error.h"

namespace calor::io {

class InputFile {
public:
    /// Throws IoError [io/open].
    InputFile(const std::string& path, const Where& where);
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    ~InputFile();

    std::int64_t size() const { return size_; }
    /// Fills `bytes` bytes. Throws IoError [io/truncated] (the file shrank), [io/open] when the system refuses.
    void read(void* to, std::int64_t bytes);

private:
    std::string path_;
    Where where_;
    int descriptor_ = -1;
    std::int64_t size_ = 0;
};

/// Writes beside the target and renames on commit(); without a commit nothing is left behind.
class OutputFile {
public:
    /// Throws IoError [io/write].
    OutputFile(const std::string& path, const Where& where);
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    void write(const void* from, std::int64_t bytes);
    /// Everything is on the disk and under its name when this returns.
    void commit();

private:
    [[noreturn]] void refuse() const;
    std::string path_, temporary_;
    Where where_;
    int descriptor_ = -1;
};

}  // namespace calor::io
