// The reference: one window at a time, its taps in row-major order. The adjoints add to the input's elements in the
// order of the windows.
#include <limits>
#include <vector>

#include "ops/pool/pool.h"

namespace calor::ops::pool {
namespace {

struct Tap {
    std::int64_t id, index;  ///< its number in the window, and its row-major place among the spatial axes of x
    Dims at;
};

/// The taps of the window at `position` that lie in the data.
std::vector<Tap> taps_of(const Attributes& a, const Dims& position) {
    const Window& w = a.window;
    std::vector<Tap> taps;
    for (std::int64_t id = 0, n = tap_count(w); id < n; ++id) {
        Tap tap{id, 0, Dims(w.rank(), 0)};
        bool inside = true;
        std::int64_t rest = id, scale = 1;
        for (std::int64_t i = w.rank() - 1; i >= 0; --i) {
            tap.at[i] = position[i] * w.stride[i] - w.pad_low[i] + rest % w.kernel[i] * w.dilation[i];
            rest /= w.kernel[i];
            inside = inside && tap.at[i] >= 0 && tap.at[i] < a.sizes[i];
            tap.index += tap.at[i] * scale;
            scale *= a.sizes[i];
        }
        if (inside) taps.push_back(tap);
    }
    return taps;
}

std::int64_t offset_of(const View& v, std::int64_t n, std::int64_t c, const Dims& at) {
    std::int64_t offset = n * v.stride(0) + c * v.stride(1);
    for (std::int64_t i = 0; i < at.rank(); ++i) offset += at[i] * v.stride(i + 2);
    return offset;
}

std::int64_t read_tap(const View& taps, std::int64_t offset) {
    if (taps.dtype == u8) return taps.as<std::uint8_t>()[offset];
    return taps.as<std::int32_t>()[offset];
}
void write_tap(const View& taps, std::int64_t offset, std::int64_t id) {
    if (taps.dtype == u8) {
        taps.as<std::uint8_t>()[offset] = static_cast<std::uint8_t>(id < 0 ? 255 : id);
    } else {
        taps.as<std::int32_t>()[offset] = static_cast<std::int32_t>(id < 0 ? INT32_MAX : id);
    }
}

template <class T> T lowest() {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
        return T(-std::numeric_limits<float>::infinity());
    else if constexpr (std::is_floating_point_v<T>)
        return -std::numeric_limits<T>::infinity();
    else
        return std::numeric_limits<T>::lowest();
}

template <class T, class A> struct Reference {
    Kind kind;
    const graph::Call& call;
    const Attributes& a = call.attrs<Attributes>();
    const View& source = call.inputs[0];
    const View& result = call.outputs[0];

    void window(std::int64_t n, std::int64_t c, const Dims& position, std::vector<A>& sums) const {
        const std::vector<Tap> taps = taps_of(a, position);
        const View& small = kind == Kind::max_grad ? source : result;
        const std::int64_t at = offset_of(small, n, c, position);
        if (kind == Kind::max) {
            T best = lowest<T>();
            std::int64_t id = -1;
            for (const Tap& tap : taps) {
                const T v = source.as<T>()[offset_of(source, n, c, tap.at)];
                if (id < 0 || v > best || v != v) {
                    best = v;
                    id = tap.id;
                }
            }
            result.as<T>()[at] = best;
            if (a.taps) write_tap(call.outputs[1], offset_of(call.outputs[1], n, c, position), id);
            return;
        }
        A sum = A(0);
        for (const Tap& tap : taps) {
            if (read_tap(call.inputs[1], offset_of(call.inputs[1], n, c, position)) != tap.id) continue;
            if (&small == &result) {
                sum += static_cast<A>(source.as<T>()[offset_of(source, n, c, tap.at)]);
            } else {
                sums[static_cast<std::size_t>(tap.index)] += static_cast<A>(source.as<T>()[at]);
            }
        }
        if (&small == &result) result.as<T>()[at] = static_cast<T>(sum);
    }

    void run() const {
        const bool scatters = kind == Kind::max_grad;
        std::int64_t spatial = 1, windows = 1;
        for (const std::int64_t s : a.sizes) spatial *= s;
        for (const std::int64_t p : a.positions) windows *= p;
        const std::int64_t rank = a.sizes.rank();
        for (std::int64_t n = 0; n < source.size(0); ++n) {
            for (std::int64_t c = 0; c < source.size(1); ++c) {
                std::vector<A> sums(static_cast<std::size_t>(scatters ? spatial : 0), A(0));
                Dims position(rank, 0);
                for (std::int64_t p = 0; p < windows; ++p) {
                    window(n, c, position, sums);
                    for (std::int64_t i = rank - 1; i >= 0 && ++position[i] == a.positions[i]; --i) position[i] = 0;
                }
                Dims at(rank, 0);
                for (std::size_t i = 0; i < sums.size(); ++i) {
                    result.as<T>()[offset_of(result, n, c, at)] = static_cast<T>(sums[i]);
                    for (std::int64_t d = rank - 1; d >= 0 && ++at[d] == a.sizes[d]; --d) at[d] = 0;
                }
            }
        }
    }
};

void indices(const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const View &taps = call.inputs[0], &result = call.outputs[0];
    std::int64_t windows = 1;
    for (const std::int64_t p : a.positions) windows *= p;
    Dims position(a.positions.rank(), 0);
    for (std::int64_t p = 0; p < windows; ++p) {
        const std::vector<Tap> inside = taps_of(a, position);
        for (std::int64_t n = 0; n < taps.size(0); ++n) {
            for (std::int64_t c = 0; c < taps.size(1); ++c) {
                const std::int64_t id = read_tap(taps, offset_of(taps, n, c, position));
                std::int64_t found = -1;
                for (const Tap& tap : inside) {
                    if (tap.id == id) found = tap.index;
                }
                result.as<std::int64_t>()[offset_of(result, n, c, position)] = found;
            }
        }
        for (std::int64_t i = position.rank() - 1; i >= 0 && ++position[i] == a.positions[i]; --i) position[i] = 0;
    }
}

template <class T, class A> void run(Kind kind, const graph::Call& call) { Reference<T, A>{kind, call}.run(); }

}  // namespace

void run_reference(Kind kind, const graph::Call& call) {
    if (kind == Kind::indices) return indices(call);
    switch (call.inputs[0].dtype) {
        case f64: return run<double, double>(kind, call);
        case f32: return run<float, double>(kind, call);
        case f16: return run<float16, float>(kind, call);
        case bf16: return run<bfloat16, float>(kind, call);
        case i64: return run<std::int64_t, std::int64_t>(kind, call);
        case i32: return run<std::int32_t, std::int64_t>(kind, call);
        case i16: return run<std::int16_t, std::int64_t>(kind, call);
        case i8: return run<std::int8_t, std::int64_t>(kind, call);
        case u64: return run<std::uint64_t, std::uint64_t>(kind, call);
        case u32: return run<std::uint32_t, std::uint64_t>(kind, call);
        case u16: return run<std::uint16_t, std::uint64_t>(kind, call);
        case u8:
        case boolean: return run<std::uint8_t, std::uint64_t>(kind, call);
    }
}

}  // namespace calor::ops::pool
