#include "device/gpu/launch.h"

#include <fmt/format.h>

#include <bit>

#include "core/fail.h"

namespace calor::gpu {
namespace {

GpuBackend& gpu_of(Backend& backend) {
    GpuBackend* gpu = backend.gpu();
    if (!gpu) fail_internal("a GPU kernel was launched on the CPU");
    return *gpu;
}

/// q = (high(p * magic) + p) >> shift is p / size for 0 <= p < 2^31 (Granlund & Montgomery, "Division by invariant
/// integers using multiplication", 1994).
struct Magic {
    std::uint32_t magic = 0, shift = 0;
};
Magic magic_of(std::int64_t size) {
    const auto d = static_cast<std::uint64_t>(size < 1 ? 1 : size);
    const auto shift = static_cast<std::uint32_t>(std::bit_width(d - 1));
    const std::uint64_t magic = ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1;
    return {static_cast<std::uint32_t>(magic), shift};
}

/// Bytes of a type that is spelled out; 0: a macro that only the compiler knows.
std::size_t bytes_of(std::string_view type) {
    for (int t = 0; t < dtype_count; ++t) {
        const auto dtype = static_cast<DType>(t);
        if (!is_half(dtype) && type == kernel_name_of(dtype)) return static_cast<std::size_t>(size_of(dtype));
    }
    return type == "int" ? 4 : 0;
}

template <class T> void append(std::vector<std::byte>& memory, T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    memory.insert(memory.end(), first, first + sizeof value);
}

}  // namespace

Launch::Launch(Backend& backend, const KernelFile& file, std::string_view entry, std::string_view operation,
               const Where& where)
    : device_(gpu_of(backend)), caller_{operation, where} {
    source_.file = &file;
    source_.entry = entry;
    items_.reserve(16);
    data_.reserve(256);
}

Launch& Launch::constant(std::string_view name, std::string_view word) {
    source_.constants.append("#define ").append(name).append(1, ' ').append(word).append(1, '\n');
    return *this;
}
Launch& Launch::constant(std::string_view name, DType dtype) {
    uses(dtype);
    return constant(name, kernel_name_of(dtype));
}
Launch& Launch::constant(std::string_view name, std::int64_t value) {
    const std::string text = std::to_string(value);
    return constant(name, std::string_view(value < 0 ? "(" + text + ")" : text));
}
Launch& Launch::list(std::string_view name, std::span<const std::int64_t> values) {
    const std::string stem = std::string(name) + "_";
    for (std::size_t i = 0; i < values.size(); ++i) constant(stem + std::to_string(i), values[i]);
    return constant(stem + "COUNT", std::ssize(values));
}
Launch& Launch::uses(DType dtype) {
    source_.use(dtype);
    return *this;
}

Launch& Launch::bytes(const void* data, std::size_t count, Kind kind) {
    const auto* first = static_cast<const std::byte*>(data);
    items_.push_back({kind, data_.size(), count, 0});
    data_.insert(data_.end(), first, first + count);
    return *this;
}
Launch& Launch::buffer(const void* data) { return bytes(&data, sizeof data, Kind::in); }
Launch& Launch::buffer(const View& view) {
    std::int64_t reach = view.count();
    for (std::int64_t a = 0; a < view.rank(); ++a) {
        reach = std::max(reach, view.size(a) * std::abs(view.stride(a)));
    }
    note(reach);
    return buffer(view.data);
}
Launch& Launch::size(std::int64_t value) {
    note(std::abs(value));
    return bytes(&value, sizeof value, Kind::size);
}
Launch& Launch::number(double v, DType dtype) {
    switch (compute_type(dtype)) {
        case f64: return value(v);
        case f32: return value(static_cast<float>(v));
        case i64: return value(static_cast<std::int64_t>(v));
        case i32: return value(static_cast<std::int32_t>(v));
        case i16: return value(static_cast<std::int16_t>(v));
        case i8: return value(static_cast<std::int8_t>(v));
        case u64: return value(static_cast<std::uint64_t>(v));
        case u32: return value(static_cast<std::uint32_t>(v));
        case u16: return value(static_cast<std::uint16_t>(v));
        default: return value(static_cast<std::uint8_t>(v));
    }
}
Launch& Launch::layout(std::span<const std::int64_t> sizes, std::span<const std::span<const std::int64_t>> strides) {
    std::vector<std::int64_t> all(sizes.begin(), sizes.end());
    std::int64_t count = 1;
    for (const std::int64_t s : sizes) count *= s;
    note(count);
    for (const auto& list : strides) {
        if (list.size() != sizes.size()) fail_internal("a layout has as many strides as sizes", caller_.where);
        for (std::size_t a = 0; a < sizes.size(); ++a) note(std::abs(list[a]) * sizes[a]);
        all.insert(all.end(), list.begin(), list.end());
    }
    bytes(all.data(), all.size() * sizeof(std::int64_t), Kind::layout);
    items_.back().operands = strides.size();
    return *this;
}
Launch& Launch::wide(bool on) {
    wide_ = wide_ || on;
    return *this;
}
Launch& Launch::threads(std::int64_t count) { return threads(Extent{count, 1, 1}); }
Launch& Launch::threads(Extent extent) {
    threads_ = extent;
    return *this;
}

void Launch::over(std::int64_t count, std::int64_t per_thread) {
    if (count <= 0) return;
    const std::int64_t group = threads_.count() * per_thread;
    const std::int64_t most = std::int64_t{device_.traits().units} * 64;
    run(std::min((count + group - 1) / group, most));
}

/// Mistakes in our own code, which the driver would answer with a crash.
void Launch::check(const Kernel& kernel) const {
    const auto wrong = [&](const std::string& what) {
        fail_internal(fmt::format("{} of {}: {}", source_.entry, source_.file->path, what), caller_.where);
    };
    if (kernel.parameters.size() != items_.size()) {
        wrong(fmt::format("{} arguments for {} parameters", items_.size(), kernel.parameters.size()));
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const Kind expected = kernel.parameters[i].kind, got = items_[i].kind;
        if (expected != got && !(expected <= Kind::inout && got == Kind::in)) {
            wrong("the argument for " + kernel.parameters[i].name + " is of another kind");
        }
        const std::size_t bytes = got == Kind::value ? bytes_of(kernel.parameters[i].type) : 0;
        if (bytes != 0 && bytes != items_[i].bytes) {
            wrong(fmt::format("{} has {} bytes, the argument {}", kernel.parameters[i].name, bytes, items_[i].bytes));
        }
    }
}

void Launch::pack_layout(const Item& item, std::vector<std::byte>& memory) const {
    const std::size_t lists = item.operands + 1, count = item.bytes / sizeof(std::int64_t) / lists;
    const auto at = [&](std::size_t list, std::size_t axis) {
        if (axis >= count) return list == 0 ? std::int64_t{1} : std::int64_t{0};  // rank 0 has one axis of size 1
        std::int64_t v = 0;
        std::memcpy(&v, data_.data() + item.at + (list * count + axis) * sizeof v, sizeof v);
        return v;
    };
    const std::size_t rank = std::max<std::size_t>(count, 1);
    for (std::size_t list = 0; list < lists; ++list) {
        for (std::size_t a = 0; a < rank; ++a) {
            if (wide_) {
                append(memory, at(list, a));
            } else {
                append(memory, static_cast<std::int32_t>(at(list, a)));
            }
        }
    }
    if (wide_) return;
    for (std::size_t a = 0; a < rank; ++a) append(memory, magic_of(at(0, a)).magic);
    for (std::size_t a = 0; a < rank; ++a) append(memory, magic_of(at(0, a)).shift);
}

std::vector<Argument> Launch::pack(std::vector<std::byte>& memory) const {
    std::vector<std::size_t> starts;
    for (const Item& item : items_) {
        memory.resize((memory.size() + 7) / 8 * 8);
        starts.push_back(memory.size());
        const std::byte* from = data_.data() + item.at;
        if (item.kind == Kind::layout) {
            pack_layout(item, memory);
        } else if (item.kind == Kind::size && !wide_) {
            std::int64_t v = 0;
            std::memcpy(&v, from, sizeof v);
            append(memory, static_cast<std::int32_t>(v));
        } else {
            memory.insert(memory.end(), from, from + item.bytes);
        }
        starts.push_back(memory.size());
    }
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < items_.size(); ++i) {
        arguments.push_back(
            {memory.data() + starts[2 * i], starts[2 * i + 1] - starts[2 * i], items_[i].kind <= Kind::inout});
    }
    return arguments;
}

void Launch::run(Extent groups) {
    if (groups.count() == 0) return;
    source_.wide_index = wide_;
    source_.threads = threads_;
    const std::string key = fmt::format("{}\n{}\n{}{} {} {}\n{}", source_.file->path, source_.entry, wide_ ? 'w' : 'n',
                                        threads_.x, threads_.y, threads_.z, source_.constants);
    Kernel* kernel = device_.find(key);
    if (!kernel) kernel = &device_.kernel(key, source_, caller_);
    check(*kernel);
    std::vector<std::byte> memory;
    memory.reserve(512);
    const std::vector<Argument> arguments = pack(memory);
    device_.launch(*kernel, groups, threads_, arguments, caller_);
}

}  // namespace calor::gpu
