// The JSON header of a safetensors file, checked: nothing in it can make the reader leave the file or reserve too much.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calor/io.h"

namespace calor::io {

/// One tensor as the header describes it. `begin` and `end` count bytes from the end of the header.
struct HeaderEntry {
    std::string name;
    DType dtype = f32;
    Shape shape;
    std::int64_t begin = 0, end = 0;
};

struct Header {
    std::vector<HeaderEntry> entries;  ///< sorted by their bytes' place
    Metadata metadata;
};

/// Headers above this are refused, as the format says.
inline constexpr std::int64_t most_header_bytes = 100'000'000;

/// Parses and checks a header whose file has `data_bytes` bytes after it.
Header parse_header(std::string_view json, std::int64_t data_bytes, const std::string& path, const Where& where);
/// The header of entries and metadata, padded with spaces to a multiple of 8 bytes.
std::string write_header(const Header& header);

}  // namespace calor::io
