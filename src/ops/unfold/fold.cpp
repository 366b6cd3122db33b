// The adjoint of windows, row by row of the data: each row has one writer, which adds the windows' entries in a fixed
// order. f16 and bf16 add in f32 and round once; integers wrap.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "device/cpu/vectorize.h"
#include "ops/unfold/unfold.h"

namespace calor::ops::unfold {
namespace {

/// Integers of a width add unsigned, halves in f32.
template <class S> struct Wide { using T = S; };
template <> struct Wide<float16> { using T = float; };
template <> struct Wide<bfloat16> { using T = float; };

/// Where an entry of a window's axis appears: offsets among the windows, in the order of positions.
using Places = std::vector<std::vector<std::int64_t>>;

Places places_of(const Attributes& a, std::int64_t i, const View& windows) {
    const Window& w = a.window;
    const std::int64_t size = a.sizes[a.axes[i]], kernel_axis = a.sizes.rank() + i;
    Places places(static_cast<std::size_t>(size));
    for (std::int64_t p = 0; p < a.positions[i]; ++p) {
        for (std::int64_t k = 0; k < w.kernel[i]; ++k) {
            const std::int64_t at = p * w.stride[i] + k * w.dilation[i] - w.pad_low[i];
            if (at < 0 || at >= size) continue;
            places[static_cast<std::size_t>(at)].push_back(p * windows.stride(a.axes[i]) +
                                                           k * windows.stride(kernel_axis));
        }
    }
    return places;
}

/// The rows of the data: which offsets among the windows add to each.
struct Plan {
    std::vector<Places> axes;  ///< of all axes of the data but the last
    std::int64_t slides = -1;  ///< which of the window's axes the last one is

    Plan(const Attributes& a, const View& windows) {
        const std::int64_t rank = a.sizes.rank();
        for (std::int64_t d = 0; d < rank; ++d) {
            const auto found = std::ranges::find(a.axes, d);
            const bool is_window = found != a.axes.end();
            if (d == rank - 1) {
                slides = is_window ? found - a.axes.begin() : -1;
            } else if (is_window) {
                axes.push_back(places_of(a, found - a.axes.begin(), windows));
            } else {
                Places one;
                for (std::int64_t i = 0; i < a.sizes[d]; ++i) one.push_back({i * windows.stride(d)});
                axes.push_back(std::move(one));
            }
        }
    }

    /// Calls body(offset) for every combination that adds to row `row`.
    template <class F> void each(std::int64_t row, std::vector<std::size_t>& at, const F& body) const {
        at.assign(axes.size(), 0);
        std::vector<const std::vector<std::int64_t>*> lists(axes.size());
        for (std::size_t d = axes.size(); d-- > 0;) {
            const auto size = std::ssize(axes[d]);
            lists[d] = &axes[d][static_cast<std::size_t>(row % size)];
            row /= size;
            if (lists[d]->empty()) return;
        }
        for (;;) {
            std::int64_t offset = 0;
            for (std::size_t d = 0; d < axes.size(); ++d) offset += (*lists[d])[at[d]];
            body(offset);
            std::size_t d = axes.size();
            while (d > 0 && ++at[d - 1] == lists[d - 1]->size()) at[--d] = 0;
            if (d == 0) return;
        }
    }
};

/// Adds n entries at `from` to out[0], out[step], ...
template <class S> class Adder {
public:
    using T = typename Wide<S>::T;
    Adder(DType dtype, std::int64_t widest)
        : widen_(cpu::find_convert(dtype, is_floating(dtype) ? compute_type(dtype) : dtype)),
          raw_(static_cast<std::size_t>(widest)) {
        if constexpr (!std::is_same_v<S, T>) wide_.resize(static_cast<std::size_t>(widest));
    }
    void add(const S* from, std::int64_t from_step, T* out, std::int64_t step, std::int64_t n) {
        if (from_step != 1) {
            cpu::gather(raw_.data(), from, from_step, sizeof(S), n);
            from = raw_.data();
        }
        const T* values = nullptr;
        if constexpr (std::is_same_v<S, T>) {
            values = from;
        } else {
            const void* const in[1] = {from};
            widen_(in, wide_.data(), n, nullptr);
            values = wide_.data();
        }
        if (step == 1) {
            CALOR_VECTORIZE
            for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(out[i] + values[i]);
        } else {
            for (std::int64_t i = 0; i < n; ++i) out[i * step] = static_cast<T>(out[i * step] + values[i]);
        }
    }

private:
    TileKernel widen_;
    std::vector<S> raw_;
    std::vector<T> wide_;
};

template <class S>
void add_row(const Attributes& a, const Plan& plan, const View& w, const S* from, typename Wide<S>::T* out,
             Adder<S>& adder) {
    const std::int64_t last = a.sizes.rank() - 1, step = w.stride(last);
    if (plan.slides < 0) return adder.add(from, step, out, 1, a.sizes[last]);
    const std::int64_t i = plan.slides, s = a.window.stride[i];
    for (std::int64_t k = 0; k < a.window.kernel[i]; ++k) {
        const std::int64_t start = k * a.window.dilation[i] - a.window.pad_low[i];  // of position 0
        const std::int64_t low = start < 0 ? (-start + s - 1) / s : 0;
        const std::int64_t room = a.sizes[last] - 1 - start;
        const std::int64_t high = room < 0 ? 0 : std::min(a.positions[i], room / s + 1);
        if (low >= high) continue;
        adder.add(from + k * w.stride(a.sizes.rank() + i) + low * step, step, out + start + low * s, s, high - low);
    }
}

template <class S> void run_rows(const graph::Call& call) {
    using T = typename Wide<S>::T;
    const auto& a = call.attrs<Attributes>();
    const View &w = call.inputs[0], &x = call.outputs[0];
    const Plan plan(a, w);
    const std::int64_t width = a.sizes.back();
    const std::int64_t widest = plan.slides < 0 ? width : a.positions[plan.slides];
    cpu::parallel_for(
        x.count() / width, std::max<std::int64_t>(1, 4096 / width), [&](std::int64_t begin, std::int64_t end) {
            Adder<S> adder(x.dtype, widest);
            std::vector<T> sums(static_cast<std::size_t>(std::is_same_v<S, T> ? 0 : width));
            std::vector<std::size_t> at;
            for (std::int64_t row = begin; row < end; ++row) {
                S* to = x.as<S>() + row * width;
                T* out = nullptr;
                if constexpr (std::is_same_v<S, T>) {
                    out = to;
                } else {
                    out = sums.data();
                }
                std::fill_n(out, width, T(0));
                plan.each(row, at,
                          [&](std::int64_t offset) { add_row<S>(a, plan, w, w.as<const S>() + offset, out, adder); });
                if constexpr (!std::is_same_v<S, T>) {
                    const void* const in[1] = {out};
                    cpu::find_convert(f32, x.dtype)(in, to, width, nullptr);
                }
            }
        });
}

template <class S> void run_reference(const graph::Call& call) {
    using T = typename Wide<S>::T;
    const auto& a = call.attrs<Attributes>();
    const View &w = call.inputs[0], &x = call.outputs[0];
    std::vector<T> sums(static_cast<std::size_t>(x.count()), T(0));
    const std::int64_t rank = a.sizes.rank();
    Dims at(w.rank(), 0);
    for (std::int64_t i = 0, n = w.count(); i < n; ++i) {
        std::int64_t from = 0, to = 0;
        bool inside = true;
        for (std::int64_t d = 0; d < w.rank(); ++d) from += at[d] * w.stride(d);
        for (std::int64_t d = 0; d < rank; ++d) {
            std::int64_t entry = at[d];
            for (std::int64_t k = 0; k < a.axes.rank(); ++k) {
                if (a.axes[k] != d) continue;
                entry = at[d] * a.window.stride[k] + at[rank + k] * a.window.dilation[k] - a.window.pad_low[k];
            }
            inside = inside && entry >= 0 && entry < a.sizes[d];
            to = to * a.sizes[d] + entry;
        }
        if (inside) {
            T& sum = sums[static_cast<std::size_t>(to)];
            sum = static_cast<T>(sum + static_cast<T>(w.as<const S>()[from]));
        }
        for (std::int64_t d = w.rank() - 1; d >= 0 && ++at[d] == w.size(d); --d) at[d] = 0;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) x.as<S>()[i] = static_cast<S>(sums[i]);
}

template <class F> void for_dtype(DType dtype, const F& f) {
    switch (dtype) {
        case f64: return f(double());
        case f32: return f(float());
        case f16: return f(float16());
        case bf16: return f(bfloat16());
        case i64:
        case u64: return f(std::uint64_t());
        case i32:
        case u32: return f(std::uint32_t());
        case i16:
        case u16: return f(std::uint16_t());
        default: return f(std::uint8_t());
    }
}

}  // namespace

void fold_rows(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    for_dtype(call.outputs[0].dtype, [&](auto s) { run_rows<decltype(s)>(call); });
}
void fold_reference(const graph::Call& call) {
    for_dtype(call.outputs[0].dtype, [&](auto s) { run_reference<decltype(s)>(call); });
}

}  // namespace calor::ops::unfold
