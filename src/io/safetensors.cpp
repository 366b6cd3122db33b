// safetensors files: u64 length | JSON header | elements. Little-endian, as every machine that this is built for.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "calor/io.h"
#include "core/fail.h"
#include "io/file.h"
#include "io/header.h"

namespace calor::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

bool is_utf8(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size()) {
        const auto first = static_cast<unsigned char>(text[i]);
        const int more = first < 0x80         ? 0
                         : (first >> 5) == 6  ? 1
                         : (first >> 4) == 14 ? 2
                         : (first >> 3) == 30 ? 3
                                              : -1;
        if (more < 0 || i + static_cast<std::size_t>(more) >= text.size()) return false;
        std::uint32_t point = more == 0 ? first : first & (0x3fU >> more);
        for (int k = 1; k <= more; ++k) {
            const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
            if ((next >> 6) != 2) return false;
            point = (point << 6) | (next & 0x3fU);
        }
        constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
        i += static_cast<std::size_t>(more) + 1;
    }
    return true;
}

void check_names(const NamedTensors& tensors, const Metadata& metadata, const Where& where) {
    const auto refuse = [&](std::string_view name, std::string_view what) {
        fail("io/name", "save", where, {{"name", name}, {"what", what}});
    };
    std::unordered_set<std::string_view> names, keys;
    for (const NamedTensor& t : tensors) {
        if (!is_utf8(t.name)) refuse("a tensor's name", "is not UTF-8");
        if (t.name == "__metadata__") refuse(t.name, "is reserved by the format");
        if (!names.insert(t.name).second) refuse(t.name, "names two tensors");
        if (!t.value.defined()) fail("tensor/undefined", "save", where, {{"argument", t.name}});
    }
    for (const auto& [key, value] : metadata) {
        if (!is_utf8(key) || !is_utf8(value)) refuse("a key or text of the metadata", "is not UTF-8");
        if (!keys.insert(key).second) refuse(key, "names two texts of the metadata");
    }
}

template <class T> void write_elements(OutputFile& file, const Tensor& t, const Where& where) {
    if constexpr (std::same_as<T, bool>) {
        write_elements<std::uint8_t>(file, t.to(u8, where), where);
    } else {
        const std::vector<T> values = t.to_vector<T>(where);
        file.write(values.data(), std::ssize(values) * static_cast<std::int64_t>(sizeof(T)));
    }
}

template <class T> Tensor read_elements(InputFile& file, const Shape& shape, const Where& where) {
    auto values = host_array<T>(numel(shape, where), "load", where);
    file.read(values.data(), std::ssize(values) * static_cast<std::int64_t>(sizeof(T)));
    return tensor(values, shape, where);
}

/// Calls f with a value of the C++ type that stores the dtype (u8 for bool, whose bytes in a file may be anything).
template <class F> auto with_storage_type(DType dtype, const F& f) {
    switch (dtype) {
        case f64: return f(double{});
        case f32: return f(float{});
        case f16: return f(float16{});
        case bf16: return f(bfloat16{});
        case i64: return f(std::int64_t{});
        case i32: return f(std::int32_t{});
        case i16: return f(std::int16_t{});
        case i8: return f(std::int8_t{});
        case u64: return f(std::uint64_t{});
        case u32: return f(std::uint32_t{});
        case u16: return f(std::uint16_t{});
        default: return f(std::uint8_t{});
    }
}

}  // namespace

const Tensor& TensorFile::at(std::string_view name, const Where& where) const {
    const Tensor* found = find_tensor(tensors, name);
    if (!found) fail("io/missing", "at", where, {{"path", "the file"}, {"names", name}});
    return *found;
}

void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata, const Where& where) {
    const Naming naming("save");
    check_names(tensors, metadata, where);
    std::vector<const NamedTensor*> order;
    std::vector<Tensor> values;
    for (const NamedTensor& t : tensors) {
        order.push_back(&t);
        values.push_back(t.value);
    }
    calor::eval(values, where);
    std::ranges::stable_sort(order, [](const NamedTensor* a, const NamedTensor* b) {
        return size_of(a->value.dtype()) > size_of(b->value.dtype());
    });
    Header header;
    header.metadata = metadata;
    std::int64_t at = 0;
    for (const NamedTensor* t : order) {
        const std::int64_t end = checked_add(at, checked_bytes(t->value.shape(), t->value.dtype(), where), where);
        header.entries.push_back({t->name, t->value.dtype(), t->value.shape(), at, end});
        at = end;
    }
    const std::string json = write_header(header);
    if (std::ssize(json) > most_header_bytes) {
        fail("io/header-size", "save", where,
             {{"path", path}, {"bytes", std::ssize(json)}, {"most", most_header_bytes}});
    }
    OutputFile file(path, where);
    const auto length = static_cast<std::uint64_t>(json.size());
    file.write(&length, sizeof(length));
    file.write(json.data(), std::ssize(json));
    for (const NamedTensor* t : order) {
        if (t->value.dtype() == boolean) {
            write_elements<bool>(file, t->value, where);
        } else {
            with_storage_type(t->value.dtype(), [&]<class T>(T) { write_elements<T>(file, t->value, where); });
        }
    }
    file.commit();
}

TensorFile load(const std::string& path, const Where& where) {
    const Naming naming("load");
    InputFile file(path, where);
    std::uint64_t length = 0;
    if (file.size() < 8) fail("io/truncated", "load", where, {{"path", path}, {"missing", 8 - file.size()}});
    file.read(&length, sizeof(length));
    if (length > static_cast<std::uint64_t>(most_header_bytes)) {
        fail("io/header-size", "load", where, {{"path", path}, {"bytes", length}, {"most", most_header_bytes}});
    }
    const auto header_bytes = static_cast<std::int64_t>(length);
    const std::int64_t data_bytes = file.size() - 8 - header_bytes;
    if (data_bytes < 0) fail("io/truncated", "load", where, {{"path", path}, {"missing", -data_bytes}});
    std::string json(static_cast<std::size_t>(header_bytes), '\0');
    file.read(json.data(), header_bytes);
    Header header = parse_header(json, data_bytes, path, where);
    TensorFile result;
    result.metadata = std::move(header.metadata);
    for (HeaderEntry& e : header.entries) {
        Tensor value = with_storage_type(e.dtype, [&]<class T>(T) { return read_elements<T>(file, e.shape, where); });
        if (e.dtype == boolean) value = value.to(boolean, where);
        result.tensors.push_back({std::move(e.name), std::move(value)});
    }
    return result;
}

}  // namespace calor::io
