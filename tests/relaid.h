// Tensors of given values in unusual memory: channels-last, every other element, reversed.
#pragma once

#include <cstring>
#include <vector>

#include "calor/tensor.h"
#include "graph/node.h"

namespace calor::testing {

enum class Lie : std::uint8_t { plain, channels_last, sliced, flipped };
inline constexpr Lie all_lies[] = {Lie::plain, Lie::channels_last, Lie::sliced, Lie::flipped};

/// The same values and shape as `t`, lying in memory as asked.
inline Tensor relaid(const Tensor& t, Lie lie) {
    const Shape& shape = t.shape();
    const std::int64_t rank = shape.rank(), count = t.numel();
    if (lie == Lie::plain || count == 0 || rank == 0) return t;
    std::vector<std::int64_t> order;  // axes from the innermost out
    for (std::int64_t a = rank - 1; a >= 0; --a) order.push_back(a);
    if (lie == Lie::channels_last && rank > 2) {
        order.erase(order.begin() + rank - 2);
        order.insert(order.begin(), 1);
    }
    Layout layout{Strides(rank, 0), 0};
    const std::int64_t gap = lie == Lie::sliced ? 2 : 1;
    std::int64_t step = 1;
    for (const std::int64_t a : order) {
        step *= gap;
        layout.strides[a] = lie == Lie::flipped ? -step : step;
        if (lie == Lie::flipped) layout.offset += (shape[a] - 1) * step;
        step *= shape[a];
    }
    const std::int64_t size = size_of(t.dtype());
    const Tensor here = t.to(Device{}).eval();
    const View from = graph::view_of(graph::value_of(here));
    std::vector<char> bytes(static_cast<std::size_t>(step * size), 1);  // not zeros: gaps must not be read
    Dims index(rank, 0);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t source = 0, target = layout.offset;
        for (std::int64_t a = 0; a < rank; ++a) {
            source += index[a] * from.stride(a);
            target += index[a] * layout.strides[a];
        }
        std::memcpy(bytes.data() + target * size, from.as<char>() + source * size, static_cast<std::size_t>(size));
        for (std::int64_t a = rank - 1; a >= 0 && ++index[a] == shape[a]; --a) index[a] = 0;
    }
    const Tensor memory = from_host(bytes.data(), step, t.dtype(), {step}, t.device());
    return graph::make_value(graph::value_of(memory).storage, layout, shape, t.dtype(), t.device(), Where::current());
}

/// Implementations named here are passed over while one lives.
class Disable {
public:
    explicit Disable(const char* names) { setenv("CALOR_DISABLE", names, 1); }
    Disable(const Disable&) = delete;
    Disable& operator=(const Disable&) = delete;
    ~Disable() { unsetenv("CALOR_DISABLE"); }
};

}  // namespace calor::testing
