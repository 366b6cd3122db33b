// Reading a header goes through the events of a JSON parser and an explicit list of expected places, so that depth,
// repeated keys and wrong kinds of value are refused where they stand, and no tree of a hostile file is ever built.
#include "io/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/fail.h"

namespace calor::io {
namespace {

constexpr std::string_view dtype_names[dtype_count] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16",
                                                       "I8",  "U64", "U32", "U16",  "U8",  "BOOL"};
constexpr std::string_view metadata_key = "__metadata__";
constexpr std::int64_t most_axes = 4096;

struct HeaderReader : nlohmann::json_sax<nlohmann::json> {
    enum class Place : std::uint8_t { outside, file, metadata, tensor, shape, offsets, finished };

    HeaderReader(const std::string& p, const Where& w) : path(p), where(w) {}

    [[noreturn]] void refuse(const std::string& what) const {
        fail("io/header", "load", where, {{"path", path}, {"what", what}});
    }
    [[noreturn]] void unexpected(std::string_view got) const {
        constexpr std::string_view expected[] = {
            "an object",   "a tensor's description", "a text", "a field of a tensor",
            "a size >= 0", "an offset >= 0",         "the end"};
        const std::string_view wanted = place == Place::tensor ? wanted_in_tensor() : expected[static_cast<int>(place)];
        refuse(fmt::format("{}{} stands where {} is expected", got,
                           key_name.empty() ? "" : " at '" + shown(key_name) + "'", wanted));
    }
    std::string_view wanted_in_tensor() const {
        if (field == "dtype") return "the name of a dtype";
        return field == "shape" ? "a list of sizes" : "a list of two offsets";
    }
    static std::string shown(const std::string& name) { return name.size() > 80 ? name.substr(0, 80) + "..." : name; }

    bool null() override { unexpected("null"); }
    bool boolean(bool) override { unexpected("a truth value"); }
    bool number_float(double, const std::string& text) override { unexpected("the number " + shown(text)); }
    bool binary(binary_t&) override { unexpected("binary data"); }
    bool number_integer(std::int64_t value) override { unexpected(fmt::format("the number {}", value)); }
    bool number_unsigned(std::uint64_t value) override {
        if (place != Place::shape && place != Place::offsets) unexpected(fmt::format("the number {}", value));
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            unexpected(fmt::format("the number {}", value));
        }
        const auto number = static_cast<std::int64_t>(value);
        if (place == Place::shape) {
            if (entry.shape.rank() == most_axes)
                refuse(fmt::format("'{}' has more than {} axes", shown(key_name), most_axes));
            entry.shape.push_back(number);
        } else {
            if (offsets == 2) refuse(fmt::format("'{}' has more than two offsets", shown(key_name)));
            (offsets++ == 0 ? entry.begin : entry.end) = number;
        }
        return true;
    }
    bool string(std::string& value) override {
        if (place == Place::metadata) {
            header.metadata.emplace_back(key_name, value);
        } else if (place == Place::tensor && field == "dtype") {
            const auto* found = std::ranges::find(dtype_names, value);
            if (found == std::end(dtype_names)) {
                fail("io/element-type", "load", where,
                     {{"path", path}, {"name", shown(key_name)}, {"got", shown(value)}});
            }
            entry.dtype = static_cast<DType>(found - std::begin(dtype_names));
        } else {
            unexpected("the text '" + shown(value) + "'");
        }
        return true;
    }
    bool start_object(std::size_t) override {
        if (place == Place::outside) {
            place = Place::file;
        } else if (place == Place::file) {
            place = key_name == metadata_key ? Place::metadata : Place::tensor;
            entry = {};
            entry.name = key_name;
            offsets = 0;
            fields.clear();
        } else {
            unexpected("an object");
        }
        return true;
    }
    bool key(std::string& value) override {
        if (place == Place::tensor) {
            field = value;
            if (value != "dtype" && value != "shape" && value != "data_offsets") {
                refuse(fmt::format("'{}' has the field '{}', which the format does not know", shown(key_name),
                                   shown(value)));
            }
            if (!fields.insert(value).second) repeated(key_name + "." + value);
            return true;
        }
        key_name = value;
        if (!(place == Place::metadata ? metadata_keys : names).insert(value).second) repeated(value);
        return true;
    }
    bool end_object() override {
        if (place == Place::tensor) {
            if (fields.size() != 3 || offsets != 2)
                refuse(fmt::format("'{}' lacks dtype, shape or offsets", shown(key_name)));
            header.entries.push_back(std::move(entry));
        }
        place = place == Place::file ? Place::finished : Place::file;
        key_name.clear();
        return true;
    }
    bool start_array(std::size_t) override {
        if (place != Place::tensor || field == "dtype") unexpected("a list");
        place = field == "shape" ? Place::shape : Place::offsets;
        return true;
    }
    bool end_array() override {
        place = Place::tensor;
        return true;
    }
    bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
        refuse(fmt::format("byte {} of the header is not valid JSON in UTF-8", at));
    }
    [[noreturn]] void repeated(const std::string& name) const {
        fail("io/duplicate", "load", where, {{"path", path}, {"name", shown(name)}});
    }

    const std::string& path;
    const Where& where;
    Header header;
    Place place = Place::outside;
    std::string key_name, field;
    HeaderEntry entry;
    int offsets = 0;
    std::unordered_set<std::string> names, metadata_keys, fields;
};

/// Bytes of a tensor, or -1 when they do not fit in 63 bits.
std::int64_t byte_size(const HeaderEntry& e) {
    std::int64_t bytes = size_of(e.dtype);
    if (std::ranges::find(e.shape, 0) != e.shape.end()) return 0;
    for (const std::int64_t size : e.shape) {
        if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
    }
    return bytes;
}

void check_offsets(const Header& header, std::int64_t data_bytes, const std::string& path, const Where& where) {
    const auto refuse = [&](const HeaderEntry& e, const std::string& what) {
        fail("io/offsets", "load", where, {{"path", path}, {"name", HeaderReader::shown(e.name)}, {"what", what}});
    };
    std::int64_t next = 0;
    for (const HeaderEntry& e : header.entries) {
        if (e.end < e.begin) refuse(e, fmt::format("ends at byte {}, before it begins at {}", e.end, e.begin));
        if (e.begin < next)
            refuse(e, fmt::format("begins at byte {} and overlaps the tensor that ends at {}", e.begin, next));
        if (e.begin > next) refuse(e, fmt::format("begins at byte {}, after a hole that starts at {}", e.begin, next));
        const std::int64_t bytes = byte_size(e);
        if (bytes < 0) refuse(e, fmt::format("has shape {}, more bytes than can be counted", to_string(e.shape)));
        if (bytes != e.end - e.begin) {
            refuse(e, fmt::format("is {}{}, {} bytes, but has {} in the file", name_of(e.dtype), to_string(e.shape),
                                  bytes, e.end - e.begin));
        }
        next = e.end;
    }
    if (next > data_bytes) {
        fail("io/truncated", "load", where, {{"path", path}, {"missing", next - data_bytes}});
    }
    if (next < data_bytes) {
        fail("io/header", "load", where,
             {{"path", path}, {"what", fmt::format("{} bytes at the end belong to no tensor", data_bytes - next)}});
    }
}

}  // namespace

Header parse_header(std::string_view json, std::int64_t data_bytes, const std::string& path, const Where& where) {
    HeaderReader reader(path, where);
    if (!json.starts_with('{')) reader.refuse("the header does not begin with a brace");
    nlohmann::json::sax_parse(json, &reader);
    std::ranges::stable_sort(reader.header.entries, [](const HeaderEntry& a, const HeaderEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_offsets(reader.header, data_bytes, path, where);
    return std::move(reader.header);
}

std::string write_header(const Header& header) {
    const auto quoted = [](std::string_view text) { return nlohmann::json(text).dump(); };
    std::string out = "{";
    if (!header.metadata.empty()) {
        out += fmt::format("\"{}\":{{", metadata_key);
        for (const auto& [key, value] : header.metadata) {
            out += fmt::format("{}{}:{}", out.back() == '{' ? "" : ",", quoted(key), quoted(value));
        }
        out += "}";
    }
    for (const HeaderEntry& e : header.entries) {
        std::string shape;
        for (const std::int64_t size : e.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
        out +=
            fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", out.size() == 1 ? "" : ",",
                        quoted(e.name), dtype_names[static_cast<int>(e.dtype)], shape, e.begin, e.end);
    }
    out += "}";
    out.append((8 - out.size() % 8) % 8, ' ');
    return out;
}

}  // namespace calor::io
