// The adjoint of max pooling. Channels side by side, held by few windows: a gather, each position of x adds up the
// windows that took their value from it. Else one plane after the other: cleared while it is in the cache, then every
// window adds to the element that it took. Both add in the order of the windows, so layouts and numbers of threads give
// the same bits. f16 and bf16 add in f32 and round once; a plane of f32 a thread (or those of a block of channels) is
// the only workspace.
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

/// The holders of the last axis, one list after the other.
struct InnerHolders {
    std::vector<std::int64_t> first, offsets;
    std::vector<std::int32_t> taps;

    explicit InnerHolders(const std::vector<std::vector<Holder>>& lists) {
        for (const auto& list : lists) {
            first.push_back(std::ssize(offsets));
            for (const Holder& h : list) {
                offsets.push_back(h.offset);
                taps.push_back(static_cast<std::int32_t>(h.tap));
            }
        }
        first.push_back(std::ssize(offsets));
    }
};

void gather_channels(const graph::Call& call, const View& gy) {
    const View &taps = call.inputs[1], &gx = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    const std::int64_t last = g.rank - 1, width = g.a.sizes[last], size = size_of(gx.dtype);
    std::vector<std::vector<std::vector<Holder>>> holders;
    std::int64_t rows = 1;
    for (std::int64_t i = 0; i < last; ++i) {
        holders.push_back(holders_of(g, i, gy.stride(i + 2)));
        rows *= g.a.sizes[i];
    }
    const InnerHolders inner(holders_of(g, last, gy.stride(last + 2)));
    const PutKernel kernel = find_put_kernel(gx.dtype);
    const auto run = [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::int64_t> offsets, next_offsets;
        std::vector<std::int32_t> ids, next_ids;
        PutLanes lanes;
        lanes.positions = width;
        lanes.x_step = gx.stride(last + 2);
        lanes.wide_taps = taps.dtype != u8;
        lanes.inner_first = inner.first.data();
        lanes.inner_offsets = inner.offsets.data();
        lanes.inner_taps = inner.taps.data();
        lanes.lanes = gx.size(1);
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t n = row / rows;
            std::int64_t rest = row % rows, to = n * gx.stride(0), scale = g.a.window.kernel[last];
            offsets.assign(1, 0);
            ids.assign(1, 0);
            for (std::int64_t i = last - 1; i >= 0; --i) {  // earlier axes vary slowest
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
            lanes.x = gx.as<std::byte>() + to * size;
            lanes.y = gy.as<const std::byte>() + n * gy.stride(0) * size;
            lanes.taps = taps.as<const std::byte>() + n * taps.stride(0) * size_of(taps.dtype);
            lanes.offsets = offsets.data();
            lanes.ids = ids.data();
            lanes.outer = std::ssize(offsets);
            kernel(lanes);
        }
    };
    cpu::parallel_for(gx.size(0) * rows, std::max<std::int64_t>(1, 8192 / (gx.size(1) * width)), run);
}

template <class S> using Sum = std::conditional_t<sizeof(S) == 2, float, S>;

/// Planes of one sample's channel. With T = S the sums go straight to the result; wider ones live in a ring of slabs
/// (the entries of the first axis) as long as windows add to them. `once`: no element is added to twice.
template <class S, class T, bool once> class Planes {
public:
    static constexpr bool wider = !std::is_same_v<S, T>;
    static constexpr std::int64_t most_sums = 1 << 15;  ///< of a plane that stays in the cache as a whole

    Planes(const MaxGeometry& g, const View& gy, const View& taps, const View& gx)
        : g_(g), gy_(gy), taps_(taps), gx_(gx), strides_(contiguous_strides(g.a.sizes)) {
        for (const std::int64_t s : g.a.sizes) count_ *= s;
        slab_ = g.rank > 1 ? strides_[0] : count_;
        direct_ = is_contiguous(g.a.sizes, Strides(spatial_strides(gx)));
        reach_ = g.rank > 1 ? g.a.window.dilation[0] * (g.a.window.kernel[0] - 1) + 1 : 1;
        slabs_ = count_ / slab_;
        if (wider && direct_ && count_ > most_sums) slabs_ = std::min(reach_, slabs_);
        ring_ = slabs_ < count_ / slab_;
        if (wider || !direct_) sums_.resize(static_cast<std::size_t>(slabs_ * slab_), T(0));
        if constexpr (wider) flush_ = find_flush_kernel(gx.dtype);
        width_ = g.a.positions.back();
        find_rows();
        row_.resize(static_cast<std::size_t>(rows_together_ * width_));
        raw_.resize(row_.size());
    }
    void run(std::int64_t n, std::int64_t c) {
        S* to = gx_.as<S>() + n * gx_.stride(0) + c * gx_.stride(1);
        sum_ = target(to);
        done_ = 0;
        const S* y = gy_.as<const S>() + n * gy_.stride(0) + c * gy_.stride(1);
        const std::int64_t named = n * taps_.stride(0) + c * taps_.stride(1);
        const T* from = nullptr;
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            const auto within = static_cast<std::int64_t>(r) % rows_together_;
            if (within == 0) from = values(y + rows_[r].y, std::ssize(rows_) - static_cast<std::int64_t>(r));
            if (ring_) flush(to, rows_[r].settled);
            if (!wider || !direct_) clear(count_ > most_sums ? rows_[r].reach : count_);
            if (taps_.dtype == u8) {
                add(from + within * width_, taps_.as<const std::uint8_t>() + named, rows_[r]);
            } else {
                add(from + within * width_, taps_.as<const std::int32_t>() + named, rows_[r]);
            }
        }
        if (wider && direct_) return flush(to, count_);
        clear(count_);
        if (!direct_) store(to);
    }

private:
    struct Row {
        std::int64_t y, taps, base;   ///< offsets in the planes; `base`: of tap 0, without the first axis
        std::int64_t settled, reach;  ///< elements of x before this row's windows, and those up to their end
        std::size_t table;            ///< of tap offsets with the first axis
    };
    T* target([[maybe_unused]] S* to) {
        if constexpr (!wider) {
            if (direct_) return to;
        }
        return sums_.data();
    }
    void find_rows() {
        const std::int64_t last = g_.rank - 1;
        Dims at(last, 0), inner(g_.rank, 0);
        for (std::int64_t i = 0; i <= last; ++i) inner[i] = last > 0 && i == 0 ? 0 : strides_[i];
        const std::vector<std::int64_t> rest = g_.tap_offsets(inner);
        const auto per_entry = std::ssize(rest) / g_.a.window.kernel[0];
        for (std::int64_t row = 0, rows = g_.rows(); row < rows; ++row) {
            Row r{0, 0, g_.start(last, 0), 0, count_, 0};
            for (std::int64_t i = 0; i < last; ++i) {
                r.y += at[i] * gy_.stride(i + 2);
                r.taps += at[i] * taps_.stride(i + 2);
                if (i > 0) r.base += g_.start(i, at[i]) * strides_[i];
            }
            const std::int64_t start = last > 0 ? g_.start(0, at[0]) : 0;
            r.table = last > 0 ? static_cast<std::size_t>(at[0]) : 0;
            if (r.table == tables_.size()) {
                tables_.push_back(rest);
                for (std::int64_t t = 0; last > 0 && t < std::ssize(rest); ++t) {
                    const std::int64_t entry = start + t / per_entry * g_.a.window.dilation[0];
                    tables_.back()[static_cast<std::size_t>(t)] += (entry % slabs_ + slabs_) % slabs_ * slab_;
                }
            }
            if (last > 0) {
                r.settled = std::clamp<std::int64_t>(start * slab_, 0, count_);
                r.reach = std::min(count_, (start + reach_) * slab_);
            }
            rows_.push_back(r);
            for (std::int64_t i = last - 1; i >= 0 && ++at[i] == g_.a.positions[i]; --i) at[i] = 0;
        }
        // Rows of cotangents without gaps are converted together.
        bool together = gy_.stride(last + 2) == 1;
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            together = together && rows_[r].y == static_cast<std::int64_t>(r) * width_;
        }
        rows_together_ =
            together ? std::max<std::int64_t>(1, std::min(4096 / std::max<std::int64_t>(1, width_), std::ssize(rows_)))
                     : 1;
    }
    void clear(std::int64_t end) {
        if (end <= done_) return;
        std::memset(static_cast<void*>(sum_ + done_), 0, static_cast<std::size_t>(end - done_) * sizeof(T));
        done_ = end;
    }
    /// Sums up to `end` are complete: rounds them, and leaves zeros for slabs to come.
    void flush([[maybe_unused]] S* to, [[maybe_unused]] std::int64_t end) {
        if constexpr (wider) {
            if (!ring_) return flush_(sum_, to, count_);
            for (; done_ < end; done_ += slab_) flush_(sum_ + done_ / slab_ % slabs_ * slab_, to + done_, slab_);
        }
    }
    /// The cotangents of the next rows of windows, in T; `rest` rows are left.
    const T* values(const S* from, std::int64_t rest) {
        const std::int64_t n = std::min(rows_together_, rest) * width_;
        const std::int64_t step = gy_.stride(g_.rank + 1);
        if (step != 1) {
            cpu::gather(raw_.data(), from, step, sizeof(S), n);
            from = raw_.data();
        }
        if constexpr (!wider) {
            return from;
        } else {
            const void* const in[1] = {from};
            cpu::find_convert(gy_.dtype, f32)(in, row_.data(), n, nullptr);
            return row_.data();
        }
    }
    template <class Id> void add(const T* from, const Id* named, const Row& r) const {
        const std::int64_t id_step = taps_.stride(g_.rank + 1), step = g_.a.window.stride[g_.rank - 1];
        const std::int64_t none = no_tap_of(taps_.dtype), width = width_;
        const std::int64_t* offsets = tables_[r.table].data();
        T* sums = sum_;
        const Id* ids = named + r.taps;
        std::int64_t at = r.base;
        for (std::int64_t p = 0; p < width; ++p, at += step) {
            const auto id = static_cast<std::int64_t>(ids[p * id_step]);
            if (id == none) continue;
            if constexpr (once) {
                sums[at + offsets[id]] = from[p];
            } else {
                sums[at + offsets[id]] += from[p];
            }
        }
    }
    /// To a plane with gaps.
    void store(S* to) const {
        const auto strides = spatial_strides(gx_);
        Dims at(g_.rank, 0);
        for (const T sum : sums_) {
            std::int64_t offset = 0;
            for (std::int64_t d = 0; d < g_.rank; ++d) offset += at[d] * strides[static_cast<std::size_t>(d)];
            to[offset] = static_cast<S>(sum);
            for (std::int64_t d = g_.rank - 1; d >= 0 && ++at[d] == g_.a.sizes[d]; --d) at[d] = 0;
        }
    }

    const MaxGeometry& g_;
    const View &gy_, &taps_, &gx_;
    Strides strides_;
    std::vector<std::vector<std::int64_t>> tables_;
    std::vector<Row> rows_;
    std::vector<T> sums_, row_;
    std::vector<S> raw_;
    T* sum_ = nullptr;
    FlushKernel flush_ = nullptr;
    std::int64_t count_ = 1, slab_ = 1, slabs_ = 1, reach_ = 1, done_ = 0, width_ = 1, rows_together_ = 1;
    bool direct_ = false, ring_ = false;
};

template <class S, class T, bool once> void scatter_planes(const graph::Call& call, const View& gy) {
    const View &taps = call.inputs[1], &gx = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    const std::int64_t channels = gx.size(1), planes = gx.size(0) * channels;
    cpu::parallel_for(planes, std::max<std::int64_t>(1, 16384 * planes / gx.count()),
                      [&](std::int64_t begin, std::int64_t end) {
                          Planes<S, T, once> all(g, gy, taps, gx);
                          for (std::int64_t i = begin; i < end; ++i) all.run(i / channels, i % channels);
                      });
}

/// Channels side by side in blocks: every window adds to the elements that it took. Sums wider than S are scratch, of
/// one block a thread.
template <class S, class T> class ChannelBlock {
public:
    static constexpr bool wider = !std::is_same_v<S, T>;

    ChannelBlock(const MaxGeometry& g, const View& gy, const View& taps, const View& gx, std::int64_t lanes)
        : g_(g), gy_(gy), taps_(taps), gx_(gx), strides_(spatial_strides(gx)) {
        if (wider) {
            strides_ = contiguous_strides(g.a.sizes);
            for (std::int64_t& s : strides_) s *= lanes;
        }
        std::int64_t spatial = 1;
        for (const std::int64_t s : g.a.sizes) spatial *= s;
        offsets_ = g.tap_offsets(strides_);
        if (wider) sums_.resize(static_cast<std::size_t>(spatial * lanes));
    }
    void run(std::int64_t n, std::int64_t first, std::int64_t lanes) {
        S* x = gx_.as<S>() + n * gx_.stride(0) + first;
        T* sums = nullptr;
        if constexpr (wider) {
            sums = sums_.data();
        } else {
            sums = x;
        }
        each(g_.a.sizes, [&](const Dims& at) { std::fill_n(sums + dot(at, strides_), lanes, T(0)); });
        const S* y = gy_.as<const S>() + n * gy_.stride(0) + first;
        const std::int64_t named = n * taps_.stride(0) + first;
        each(g_.a.positions, [&](const Dims& at) {
            const S* from = y + dot(at, spatial_strides(gy_));
            const std::int64_t ids = named + dot(at, spatial_strides(taps_));
            std::int64_t start = 0;
            for (std::int64_t d = 0; d < g_.rank; ++d) start += g_.start(d, at[d]) * strides_[d];
            if (taps_.dtype == u8) {
                add(from, taps_.as<const std::uint8_t>() + ids, sums, start, lanes);
            } else {
                add(from, taps_.as<const std::int32_t>() + ids, sums, start, lanes);
            }
        });
        if constexpr (wider) {
            each(g_.a.sizes, [&](const Dims& at) {
                S* to = x + dot(at, spatial_strides(gx_));
                flush_(sums + dot(at, strides_), to, lanes);
            });
        }
    }

private:
    static std::int64_t dot(const Dims& at, std::span<const std::int64_t> strides) {
        std::int64_t sum = 0;
        for (std::size_t d = 0; d < strides.size(); ++d) sum += at.data()[d] * strides[d];
        return sum;
    }
    template <class F> void each(const Dims& sizes, const F& body) const {
        Dims at(g_.rank, 0);
        std::int64_t count = 1;
        for (const std::int64_t s : sizes) count *= s;
        for (std::int64_t i = 0; i < count; ++i) {
            body(static_cast<const Dims&>(at));
            for (std::int64_t d = g_.rank - 1; d >= 0 && ++at[d] == sizes[d]; --d) at[d] = 0;
        }
    }
    template <class Id> void add(const S* y, const Id* named, T* sums, std::int64_t start, std::int64_t lanes) const {
        const std::int64_t none = no_tap_of(taps_.dtype);
        const std::int64_t* offsets = offsets_.data();
        for (std::int64_t c = 0; c < lanes; ++c) {
            const auto id = static_cast<std::int64_t>(named[c]);
            if (id != none) sums[start + c + offsets[id]] += static_cast<T>(y[c]);
        }
    }

    const MaxGeometry& g_;
    const View &gy_, &taps_, &gx_;
    Strides strides_;
    std::vector<std::int64_t> offsets_;
    std::vector<T> sums_;
    FlushKernel flush_ = find_flush_kernel(gx_.dtype);
};

template <class S, class T> void scatter_channels(const graph::Call& call, const View& gy) {
    const View &taps = call.inputs[1], &gx = call.outputs[0];
    const MaxGeometry g(call.attrs<Attributes>());
    const std::int64_t channels = gx.size(1), lanes = gx.size(0) * channels >= 512 ? 64 : 16;
    const std::int64_t blocks = (channels + lanes - 1) / lanes;
    cpu::parallel_for(gx.size(0) * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        ChannelBlock<S, T> block(g, gy, taps, gx, lanes);
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i % blocks * lanes;
            block.run(i / blocks, first, std::min(lanes, channels - first));
        }
    });
}

/// Whether so many windows hold an element that looking at all of them costs more than adding once a window.
bool crowded(const Attributes& a) {
    double held = 1;
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        held *= static_cast<double>(a.window.kernel[i]) / static_cast<double>(a.window.stride[i]);
    }
    return held >= 12;
}

/// Whether no element of x lies in two windows: then nothing is added, and halves need no wider sums.
bool disjoint(const Attributes& a) {
    for (std::int64_t i = 0; i < a.window.rank(); ++i) {
        if (a.window.dilation[i] * (a.window.kernel[i] - 1) + 1 > a.window.stride[i]) return false;
    }
    return true;
}

template <class S> void scatter(const graph::Call& call, const View& gy) {
    if (disjoint(call.attrs<Attributes>())) return scatter_planes<S, S, true>(call, gy);
    scatter_planes<S, Sum<S>, false>(call, gy);
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
        if (!crowded(call.attrs<Attributes>())) return gather_channels(call, laid);
        switch (gx.dtype) {
            case f64: return scatter_channels<double, double>(call, laid);
            case f32: return scatter_channels<float, float>(call, laid);
            case f16: return scatter_channels<float16, float>(call, laid);
            default: return scatter_channels<bfloat16, float>(call, laid);
        }
    }
    switch (gx.dtype) {
        case f64: return scatter<double>(call, gy);
        case f32: return scatter<float>(call, gy);
        case f16: return scatter<float16>(call, gy);
        default: return scatter<bfloat16>(call, gy);
    }
}

}  // namespace calor::ops::pool
