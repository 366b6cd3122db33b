// The adjoint of max pooling. Channels side by side: a gather, each position of x adds up the windows that took their
// value from it. Else one plane after the other: cleared while it is in the cache, then every window adds to the
// element that it took. Both add in the order of the windows, so layouts and numbers of threads give the same bits. f16
// and bf16 add in f32 and round once; a plane of f32 a thread is the only workspace.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/pool/max_geometry.h"
#include "ops/pool/max_kernels.h"
#include "ops/widen.h"

namespace calor::ops::pool {
namespace {

/// Windows of an axis that hold each entry, as offsets in y and tap numbers, in the order of the windows.
struct Holder {
    std::int64_t offset, tap;
};
std::vector<std::vector<Holder>> holders_of(const MaxGeometry& g, std::int64_t axis, std::int64_t stride) {
    std::vector<std::vector<Holder>> all(static_cast<std::size_t>(g.a.sizes[axis]));
    for (std::int64_t p = 0; p < g.a.positions[axis]; ++p) {
        for (std::int64_t k = 0; k < g.a.window.kernel[axis]; ++k) {
            const std::int64_t at = g.start(axis, p) + k * g.a.window.dilation[axis];
            if (at >= 0 && at < g.a.sizes[axis]) all[static_cast<std::size_t>(at)].push_back({p * stride, k});
        }
    }
    return all;
}

void gather_channels(const graph::Call& call, const View& gy) {
    const View &taps = call.inputs[1], &gx = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    std::vector<std::vector<std::vector<Holder>>> holders;
    std::int64_t spatial = 1;
    for (std::int64_t i = 0; i < g.rank; ++i) {
        holders.push_back(holders_of(g, i, gy.stride(i + 2)));
        spatial *= g.a.sizes[i];
    }
    const PutKernel kernel = find_put_kernel(gx.dtype);
    const std::int64_t channels = gx.size(1), size = size_of(gx.dtype);
    cpu::parallel_for(
        gx.size(0) * spatial, std::max<std::int64_t>(1, 4096 / channels), [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::int64_t> offsets, next_offsets;
            std::vector<std::int32_t> ids, next_ids;
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = row / spatial;
                std::int64_t rest = row % spatial, to = n * gx.stride(0);
                // From the last axis to the first: earlier axes vary slowest.
                offsets.assign(1, 0);
                ids.assign(1, 0);
                std::int64_t scale = 1;
                for (std::int64_t i = g.rank - 1; i >= 0; --i) {
                    const std::int64_t at = rest % g.a.sizes[i];
                    rest /= g.a.sizes[i];
                    to += at * gx.stride(i + 2);
                    next_offsets.clear();
                    next_ids.clear();
                    for (const Holder& h : holders[static_cast<std::size_t>(i)][static_cast<std::size_t>(at)]) {
                        for (std::size_t o = 0; o < offsets.size(); ++o) {
                            next_offsets.push_back(h.offset + offsets[o]);
                            next_ids.push_back(static_cast<std::int32_t>(h.tap * scale + ids[o]));
                        }
                    }
                    offsets.swap(next_offsets);
                    ids.swap(next_ids);
                    scale *= g.a.window.kernel[i];
                }
                PutLanes lanes;
                lanes.x = gx.as<std::byte>() + to * size;
                lanes.y = gy.as<const std::byte>() + n * gy.stride(0) * size;
                lanes.taps = taps.as<const std::byte>() + n * taps.stride(0) * size_of(taps.dtype);
                lanes.wide_taps = taps.dtype != u8;
                lanes.offsets = offsets.data();
                lanes.ids = ids.data();
                lanes.count = std::ssize(offsets);
                lanes.lanes = channels;
                kernel(lanes);
            }
        });
}

template <class S> using Sum = std::conditional_t<sizeof(S) == 2, float, S>;

/// One sample's channel. T is what it adds in: S itself goes straight to the result.
template <class S, class T> class Plane {
public:
    Plane(const MaxGeometry& g, const View& gy, const View& taps, const View& gx)
        : g_(g),
          gy_(gy),
          taps_(taps),
          gx_(gx),
          strides_(contiguous_strides(g.a.sizes)),
          offsets_(g.tap_offsets(strides_)) {
        for (const std::int64_t s : g.a.sizes) count_ *= s;
        direct_ = std::is_same_v<S, T> && is_contiguous(g.a.sizes, Strides(spatial_strides(gx)));
        if (!direct_) sums_.resize(static_cast<std::size_t>(count_));
        row_.resize(static_cast<std::size_t>(g.a.positions.back()));
        raw_.resize(row_.size());
        const std::int64_t first = g.a.window.kernel[0], d = g.a.window.dilation[0];
        reach_ = d * (first - 1) + 1;
    }
    void run(std::int64_t n, std::int64_t c) {
        S* to = gx_.as<S>() + n * gx_.stride(0) + c * gx_.stride(1);
        if constexpr (std::is_same_v<S, T>) sum_ = direct_ ? to : sums_.data();
        if constexpr (!std::is_same_v<S, T>) sum_ = sums_.data();
        cleared_ = 0;
        Dims at(g_.rank - 1, 0);
        const std::int64_t slab = g_.rank > 1 ? strides_[0] : count_;
        for (std::int64_t row = 0, rows = g_.rows(); row < rows; ++row) {
            const std::int64_t first = g_.rank > 1 ? g_.start(0, at[0]) + reach_ : 1;
            clear(std::max<std::int64_t>(first, 0) * slab);
            if (taps_.dtype == u8) {
                add<std::uint8_t>(n, c, at);
            } else {
                add<std::int32_t>(n, c, at);
            }
            for (std::int64_t i = g_.rank - 2; i >= 0 && ++at[i] == g_.a.positions[i]; --i) at[i] = 0;
        }
        clear(count_);
        if (!direct_) store(to);
    }

private:
    void clear(std::int64_t end) {
        end = std::min(end, count_);
        if (end <= cleared_) return;
        std::memset(static_cast<void*>(sum_ + cleared_), 0, static_cast<std::size_t>(end - cleared_) * sizeof(T));
        cleared_ = end;
    }
    /// The cotangents of a row of windows, in T.
    const T* values(const S* from) {
        const auto n = static_cast<std::int64_t>(row_.size());
        const std::int64_t step = gy_.stride(g_.rank + 1);
        if (step != 1) {
            cpu::gather(raw_.data(), from, step, sizeof(S), n);
            from = raw_.data();
        }
        if constexpr (std::is_same_v<S, T>) {
            return from;
        } else {
            const void* const in[1] = {from};
            cpu::find_convert(gy_.dtype, f32)(in, row_.data(), n, nullptr);
            return row_.data();
        }
    }
    template <class Id> void add(std::int64_t n, std::int64_t c, const Dims& at) {
        std::int64_t y = n * gy_.stride(0) + c * gy_.stride(1), named = n * taps_.stride(0) + c * taps_.stride(1);
        const std::int64_t last = g_.rank - 1;
        std::int64_t base = g_.start(last, 0);
        for (std::int64_t i = 0; i < last; ++i) {
            y += at[i] * gy_.stride(i + 2);
            named += at[i] * taps_.stride(i + 2);
            base += g_.start(i, at[i]) * strides_[i];
        }
        const T* from = values(gy_.as<const S>() + y);
        const Id* ids = taps_.as<const Id>() + named;
        const std::int64_t id_step = taps_.stride(last + 2), step = g_.a.window.stride[last];
        const std::int64_t none = no_tap_of(taps_.dtype), width = g_.a.positions[last];
        const std::int64_t* offsets = offsets_.data();
        T* sums = sum_;
        for (std::int64_t p = 0; p < width; ++p, base += step) {
            const auto id = static_cast<std::int64_t>(ids[p * id_step]);
            if (id != none) sums[base + offsets[id]] = static_cast<T>(sums[base + offsets[id]] + from[p]);
        }
    }
    void store(S* to) const {
        const View source{const_cast<T*>(sums_.data()), sizeof(T) == sizeof(S) ? gx_.dtype : f32, &g_.a.sizes,
                          &strides_};
        const Strides strides(spatial_strides(gx_));
        if (is_contiguous(g_.a.sizes, strides)) {
            const void* const in[1] = {sums_.data()};
            cpu::find_convert(source.dtype, gx_.dtype)(in, to, count_, nullptr);
        } else {
            Dims at(g_.rank, 0);
            for (std::int64_t i = 0; i < count_; ++i) {
                std::int64_t offset = 0;
                for (std::int64_t d = 0; d < g_.rank; ++d) offset += at[d] * strides[d];
                to[offset] = static_cast<S>(sums_[static_cast<std::size_t>(i)]);
                for (std::int64_t d = g_.rank - 1; d >= 0 && ++at[d] == g_.a.sizes[d]; --d) at[d] = 0;
            }
        }
    }

    const MaxGeometry& g_;
    const View &gy_, &taps_, &gx_;
    Strides strides_;
    std::vector<std::int64_t> offsets_;
    std::vector<T> sums_, row_;
    std::vector<S> raw_;
    T* sum_ = nullptr;
    std::int64_t count_ = 1, cleared_ = 0, reach_ = 1;
    bool direct_ = false;
};

template <class S, class T> void scatter_planes(const graph::Call& call, const View& gy) {
    const View &taps = call.inputs[1], &gx = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    const std::int64_t channels = gx.size(1);
    cpu::parallel_for(gx.size(0) * channels,
                      std::max<std::int64_t>(1, 16384 * channels / std::max<std::int64_t>(1, gx.count())),
                      [&](std::int64_t begin, std::int64_t end) {
                          Plane<S, T> plane(g, gy, taps, gx);
                          for (std::int64_t i = begin; i < end; ++i) plane.run(i / channels, i % channels);
                      });
}

/// Whether no element of x lies in two windows: then nothing is added, and halves need no wider sums.
bool disjoint(const Attributes& a) {
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        if (a.window.dilation[i] * (a.window.kernel[i] - 1) + 1 > a.window.stride[i]) return false;
    }
    return true;
}

template <class S> void scatter(const graph::Call& call, const View& gy) {
    if (sizeof(S) != 2 || disjoint(call.attrs<Attributes>())) return scatter_planes<S, S>(call, gy);
    scatter_planes<S, Sum<S>>(call, gy);
}

}  // namespace

void max_grad(const graph::Call& call) {
    const View &gy = call.inputs[0], &taps = call.inputs[1], &gx = call.outputs[0];
    if (gx.count() == 0) return;
    if (gx.stride(1) == 1 && taps.stride(1) == 1 && gx.size(1) >= 4) {
        Ref<Storage> copy;
        View laid = gy;
        if (!(*gy.strides == *taps.strides)) {  // the kernel reads both at the same places
            copy = graph::scratch(call, gy.count() * size_of(gy.dtype));
            laid.data = copy->data;
            laid.strides = taps.strides;
            copy_view(gy, laid);
        }
        return gather_channels(call, laid);
    }
    switch (gx.dtype) {
        case f64: return scatter<double>(call, gy);
        case f32: return scatter<float>(call, gy);
        case f16: return scatter<float16>(call, gy);
        default: return scatter<bfloat16>(call, gy);
    }
}

}  // namespace calor::ops::pool
