// POSIX files. Reads and writes go in pieces because the system may do less than it is asked for.
#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/fail.h"

namespace calor::io {
namespace {

constexpr std::int64_t most_at_once = std::int64_t{1} << 30;

/// Makes the rename last: the directory's entry is data too. Some file systems have no such call; then it is as good as
/// it gets.
void sync_directory(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
    const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

}  // namespace

InputFile::InputFile(const std::string& path, const Where& where) : path_(path), where_(where) {
    const auto refuse = [&](int error) {
        fail("io/open", "load", where, {{"path", path}, {"what", std::strerror(error)}});
    };
    // Not blocking: opening a pipe by mistake must not hang.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) refuse(errno);
    struct stat status {};
    const int error = ::fstat(descriptor_, &status) != 0 ? errno
                      : S_ISDIR(status.st_mode)          ? EISDIR
                      : S_ISREG(status.st_mode)          ? 0
                                                         : EINVAL;
    if (error != 0) {
        ::close(descriptor_);
        refuse(error);
    }
    size_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(void* to, std::int64_t bytes) {
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
        const auto got = ::read(descriptor_, out, static_cast<std::size_t>(std::min(bytes, most_at_once)));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("io/open", "load", where_, {{"path", path_}, {"what", std::strerror(errno)}});
        if (got == 0) fail("io/truncated", "load", where_, {{"path", path_}, {"missing", bytes}});
        out += got;
        bytes -= got;
    }
}

OutputFile::OutputFile(const std::string& path, const Where& where) : path_(path), where_(where) {
    static std::atomic<std::uint32_t> count{0};
    // In the same directory: a rename does not cross file systems.
    temporary_ = fmt::format("{}.{}.{}.part", path, ::getpid(), ++count);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        const int error = errno;
        temporary_.clear();
        errno = error;
        refuse();
    }
}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* from, std::int64_t bytes) {
    const auto* next = static_cast<const char*>(from);
    while (bytes > 0) {
        const auto done = ::write(descriptor_, next, static_cast<std::size_t>(std::min(bytes, most_at_once)));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) refuse();
        next += done;
        bytes -= done;
    }
}

void OutputFile::commit() {
    if (::fsync(descriptor_) != 0) refuse();
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (::close(descriptor) != 0) refuse();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse();
    temporary_.clear();
    sync_directory(path_);
}

void OutputFile::refuse() const { fail("io/write", "save", where_, {{"path", path_}, {"what", std::strerror(errno)}}); }

}  // namespace calor::io
