// Launch: one call of a kernel of a .kernel file. Constants first, then the arguments in the order of the kernel's
// head, then run() or over():
//     gpu::Launch(call, kernels::view_concat, "place")        // ops/gpu.h makes one from a graph::Call
//         .constant("X", x.dtype).constant("RANK", rank)
//         .buffer(x).buffer(y).size(count).layout(sizes, {from, to})
//         .over(count);
// Constants specialise: every set of them is a variant that is compiled once. So use them for dtypes, ranks, options
// and flags, and pass sizes and numbers as arguments.
#pragma once

#include <cstring>

#include "device/gpu/gpu_backend.h"
#include "device/view.h"

namespace calor::gpu {

class Launch {
public:
    Launch(Backend& backend, const KernelFile& file, std::string_view entry, std::string_view operation,
           const Where& where);

    /// #define NAME f32. Kernels use it as a type and in LOAD(X, ...), COMPUTE(X), FN(name, X).
    Launch& constant(std::string_view name, DType dtype);
    /// #define NAME 3.
    Launch& constant(std::string_view name, std::int64_t value);
    Launch& constant(std::string_view name, int value) { return constant(name, static_cast<std::int64_t>(value)); }
    Launch& constant(std::string_view name, bool value) { return constant(name, std::int64_t{value ? 1 : 0}); }
    /// #define NAME text: the name of a macro or function of the file that the variant uses.
    Launch& constant(std::string_view name, std::string_view word);
    Launch& constant(std::string_view name, const char* word) { return constant(name, std::string_view(word)); }
    /// #define NAME_0 3, NAME_1 5, ..., and NAME_COUNT.
    Launch& list(std::string_view name, std::span<const std::int64_t> values);
    /// For dtypes that the kernel names itself and uses with FN or CAST.
    Launch& uses(DType dtype);

    /// IN, OUT, INOUT. From a view, also notes how far its elements reach: past 2^30 INDEX has 64 bits.
    Launch& buffer(const View& view);
    Launch& buffer(const void* data);
    Launch& buffer(const Ref<Storage>& storage) { return buffer(storage->data); }
    /// SIZE.
    Launch& size(std::int64_t value);
    /// VALUE, of exactly the type in the head.
    template <class T>
    requires std::is_arithmetic_v<T> Launch& value(T v) { return bytes(&v, sizeof v, Kind::value); }
    /// VALUE(COMPUTE(X), v): the number in the compute type of a dtype.
    Launch& number(double v, DType dtype);
    /// LAYOUT(RANK, OPERANDS, l): sizes of the axes, then for each operand its strides, in elements.
    Launch& layout(std::span<const std::int64_t> sizes, std::initializer_list<std::span<const std::int64_t>> strides) {
        return layout(sizes, std::span(strides.begin(), strides.size()));
    }
    Launch& layout(std::span<const std::int64_t> sizes, std::span<const std::span<const std::int64_t>> strides);
    /// STRUCT(type, s): a struct that the file declares with the same members.
    template <class T>
    requires std::is_trivially_copyable_v<T> Launch& structure(const T& s) {
        return bytes(&s, sizeof s, Kind::structure);
    }
    /// Forces 64-bit INDEX: when the kernel computes offsets past 2^30 that no argument shows.
    Launch& wide(bool on = true);

    /// Group size of over() and of run(groups); a power of two. Default: 256.
    Launch& threads(std::int64_t count);
    Launch& threads(Extent extent);
    /// Enough groups for one thread every `per_thread` of `count` elements, at most some waves of the device: for
    /// kernels whose loop is FOR_EACH. Nothing runs when count is 0.
    void over(std::int64_t count, std::int64_t per_thread = 1);
    /// Exactly these groups. Nothing runs when one of the sizes is 0.
    void run(Extent groups);
    void run(std::int64_t groups) { run(Extent{groups, 1, 1}); }

    GpuBackend& device() const { return device_; }

private:
    using Kind = Parameter::Kind;
    struct Item {
        Kind kind = Kind::in;
        std::size_t at = 0, bytes = 0;  ///< in data_
        std::size_t operands = 0;       ///< layout
    };
    Launch& bytes(const void* data, std::size_t count, Kind kind);
    void note(std::int64_t reach) { wide_ = wide_ || reach >= narrow_limit; }
    void check(const Kernel& kernel) const;
    std::vector<Argument> pack(std::vector<std::byte>& memory) const;
    void pack_layout(const Item& item, std::vector<std::byte>& memory) const;

    static constexpr std::int64_t narrow_limit = std::int64_t{1} << 30;
    GpuBackend& device_;
    Source source_;
    Caller caller_;
    bool wide_ = false;
    Extent threads_{256, 1, 1};
    std::vector<Item> items_;
    std::vector<std::byte> data_;
};

}  // namespace calor::gpu
