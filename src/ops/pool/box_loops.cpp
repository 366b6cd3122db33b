#include <algorithm>
#include <vector>

#include "device/cpu/parallel.h"
#include "ops/pool/box_pool.h"
#include "ops/pool/max_kernels.h"
#include "ops/widen.h"

namespace calor::ops::pool {

Interval adaptive_interval(std::int64_t p, std::int64_t outputs, std::int64_t inputs) {
    const std::int64_t whole = inputs / outputs, rest = inputs % outputs;
    return {p * whole + p * rest / outputs, (p + 1) * whole + ((p + 1) * rest + outputs - 1) / outputs};
}

Interval fractional_interval(std::int64_t p, std::int64_t outputs, std::int64_t inputs, std::int64_t kernel,
                             double sample) {
    std::int64_t begin = inputs - kernel;
    if (p + 1 < outputs) {
        const double ratio = static_cast<double>(begin) / static_cast<double>(outputs - 1);
        begin = static_cast<std::int64_t>((static_cast<double>(p) + sample) * ratio) -
                static_cast<std::int64_t>(sample * ratio);
    }
    return {begin, begin + kernel};
}

namespace {

/// The intervals of all positions of all axes; those of fractional pooling belong to one sample and channel.
struct Intervals {
    std::vector<std::vector<Interval>> axes;
    std::int64_t channel = -1;  ///< of the samples

    Intervals(const BoxAttributes& a) : axes(a.sizes.size()) {
        for (std::int64_t i = 0; i < a.sizes.rank(); ++i) {
            auto& axis = axes[static_cast<std::size_t>(i)];
            axis.resize(static_cast<std::size_t>(a.positions[i]));
            if (!a.kernel.empty()) continue;
            for (std::int64_t p = 0; p < a.positions[i]; ++p) {
                axis[static_cast<std::size_t>(p)] = adaptive_interval(p, a.positions[i], a.sizes[i]);
            }
        }
    }
    /// `samples` is dense f64 [N C, axes].
    void draw(const BoxAttributes& a, const double* samples, std::int64_t of) {
        if (a.kernel.empty() || channel == of) return;
        channel = of;
        for (std::int64_t i = 0; i < a.sizes.rank(); ++i) {
            for (std::int64_t p = 0; p < a.positions[i]; ++p) {
                axes[static_cast<std::size_t>(i)][static_cast<std::size_t>(p)] =
                    fractional_interval(p, a.positions[i], a.sizes[i], a.kernel[i], samples[of * a.sizes.rank() + i]);
            }
        }
    }
};

/// The samples as dense f64.
class Samples {
public:
    explicit Samples(const graph::Call& call) {
        if (call.inputs.size() < 2) return;
        const View& from = call.inputs[1];
        values_.resize(static_cast<std::size_t>(from.count()));
        const Strides dense = contiguous_strides(*from.shape);
        convert_view(from, {values_.data(), f64, from.shape, &dense});
    }
    const double* data() const { return values_.data(); }

private:
    std::vector<double> values_;
};

/// Rows of a box without its last axis: where each starts in x and among the spatial axes.
struct BoxRows {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> ids;

    void find(const BoxAttributes& a, const Intervals& intervals, const View& x, const Dims& at, std::int64_t base) {
        offsets.assign(1, base);
        ids.assign(1, 0);
        for (std::int64_t i = 0; i + 1 < a.sizes.rank(); ++i) {
            const Interval box = intervals.axes[static_cast<std::size_t>(i)][static_cast<std::size_t>(at[i])];
            std::vector<std::int64_t> next;
            std::vector<std::int32_t> next_ids;
            for (std::size_t o = 0; o < offsets.size(); ++o) {
                for (std::int64_t e = box.begin; e < box.end; ++e) {
                    next.push_back(offsets[o] + e * x.stride(i + 2));
                    next_ids.push_back(static_cast<std::int32_t>(ids[o] * a.sizes[i] + e));
                }
            }
            offsets.swap(next);
            ids.swap(next_ids);
        }
        for (std::int32_t& id : ids) id = static_cast<std::int32_t>(id * a.sizes.back());
    }
};

std::int64_t product(const Dims& dims, std::int64_t count) {
    std::int64_t all = 1;
    for (std::int64_t i = 0; i < count; ++i) all *= dims[i];
    return all;
}

/// Of neighbouring columns' maxima the one that comes first in row-major order; of NaNs the last, as one by one.
template <class S> std::int64_t best_column(const S* values, const std::int32_t* ids, Interval box) {
    std::int64_t best = box.begin;
    for (std::int64_t c = box.begin + 1; c < box.end; ++c) {
        const S v = values[c], b = values[best];
        const std::int64_t id = ids[c] + c, best_id = ids[best] + best;
        bool take = v > b || (v == b && id < best_id);
        if (v != v) take = b == b || id > best_id;
        if (take) best = c;
    }
    return best;
}

std::int64_t extent_end(const View& v, std::int64_t& begin) {
    std::int64_t end = 1;
    begin = 0;
    for (std::int64_t d = 0; d < v.rank(); ++d) (v.stride(d) < 0 ? begin : end) += (v.size(d) - 1) * v.stride(d);
    return end;
}

/// One row of positions along the last axis, for one channel or for all of them.
template <class S> class BoxRow {
public:
    BoxRow(const graph::Call& call, const Samples& samples, bool over_channels)
        : a_(call.attrs<BoxAttributes>()),
          x_(call.inputs[0]),
          y_(call.outputs[0]),
          indices_(call.outputs[1]),
          samples_(samples),
          over_channels_(over_channels),
          intervals_(a_),
          at_(a_.sizes.rank() - 1, 0),
          kernel_(find_max_kernel(x_.dtype, true)),
          found_(static_cast<std::size_t>(over_channels ? y_.size(1) : a_.sizes.back())) {
        lanes_.wide_taps = true;
        lanes_.taps = found_.data();
        lanes_.x = x_.data;
        lanes_.lanes = std::ssize(found_);
        lanes_.readable_end = extent_end(x_, lanes_.readable_begin);
        if (!over_channels) values_.resize(found_.size());
    }
    void run(std::int64_t row) {
        const std::int64_t rank = a_.sizes.rank(), channels = over_channels_ ? 1 : y_.size(1);
        for (std::int64_t i = rank - 2; i >= 0; --i) {
            at_[i] = row % a_.positions[i];
            row /= a_.positions[i];
        }
        const std::int64_t c = row % channels, n = row / channels;
        intervals_.draw(a_, samples_.data(), row);
        rows_.find(a_, intervals_, x_, at_, n * x_.stride(0) + c * x_.stride(1));
        lanes_.outer = std::ssize(rows_.offsets);
        lanes_.offsets = rows_.offsets.data();
        lanes_.ids = rows_.ids.data();
        std::int64_t to = n * y_.stride(0) + c * y_.stride(1);
        std::int64_t named = n * indices_.stride(0) + c * indices_.stride(1);
        for (std::int64_t i = 0; i + 1 < rank; ++i) {
            to += at_[i] * y_.stride(i + 2);
            named += at_[i] * indices_.stride(i + 2);
        }
        if (over_channels_) return channel_lanes(to, named);
        columns(to, named);
    }

private:
    void pass(std::int64_t begin, std::int64_t end, std::int64_t k_step, std::int64_t step, S* y) {
        const auto [low, high] = std::ranges::minmax_element(rows_.offsets);
        const std::int64_t first = begin * k_step, last = (end - 1) * k_step;
        lanes_.k_begin = begin;
        lanes_.k_end = end;
        lanes_.k_step = k_step;
        lanes_.step = step;
        lanes_.lowest = *low + std::min(first, last);
        lanes_.highest = *high + std::max(first, last);
        lanes_.y = y;
        kernel_(lanes_);
    }
    /// Lanes are channels: every box is one pass.
    void channel_lanes(std::int64_t to, std::int64_t named) {
        const std::int64_t last = a_.sizes.rank() - 1;
        for (std::int64_t p = 0; p < a_.positions[last]; ++p) {
            const Interval box = intervals_.axes.back()[static_cast<std::size_t>(p)];
            pass(box.begin, box.end, x_.stride(last + 2), x_.stride(1), y_.as<S>() + to + p * y_.stride(last + 2));
            std::int64_t* index = indices_.as<std::int64_t>() + named + p * indices_.stride(last + 2);
            for (std::size_t l = 0; l < found_.size(); ++l) {
                index[static_cast<std::int64_t>(l) * indices_.stride(1)] = found_[l];
            }
        }
    }
    /// Lanes are the columns of the data: first down, then along them.
    void columns(std::int64_t to, std::int64_t named) {
        const std::int64_t last = a_.sizes.rank() - 1;
        pass(0, 1, 0, x_.stride(last + 2), values_.data());
        for (std::int64_t p = 0; p < a_.positions[last]; ++p) {
            const Interval box = intervals_.axes.back()[static_cast<std::size_t>(p)];
            const std::int64_t best = best_column(values_.data(), found_.data(), box);
            y_.as<S>()[to + p * y_.stride(last + 2)] = values_[static_cast<std::size_t>(best)];
            indices_.as<std::int64_t>()[named + p * indices_.stride(last + 2)] =
                found_[static_cast<std::size_t>(best)] + best;
        }
    }

    const BoxAttributes& a_;
    const View &x_, &y_, &indices_;
    const Samples& samples_;
    bool over_channels_;
    Intervals intervals_;
    Dims at_;
    MaxKernel kernel_;
    std::vector<std::int32_t> found_;
    std::vector<S> values_;
    MaxLanes lanes_;
    BoxRows rows_;
};

template <class S> void run_rows(const graph::Call& call) {
    const auto& a = call.attrs<BoxAttributes>();
    const View &x = call.inputs[0], &y = call.outputs[0];
    if (y.count() == 0) return;
    const Samples samples(call);
    const bool over_channels = a.kernel.empty() && x.stride(1) == 1 && y.stride(1) == 1 && y.size(1) > 1;
    const std::int64_t rank = a.sizes.rank();
    const std::int64_t rows = y.size(0) * (over_channels ? 1 : y.size(1)) * product(a.positions, rank - 1);
    const std::int64_t work = x.count() / rows + 1;
    cpu::parallel_for(rows, std::max<std::int64_t>(1, 16384 / work), [&](std::int64_t begin, std::int64_t end) {
        BoxRow<S> row(call, samples, over_channels);
        for (std::int64_t r = begin; r < end; ++r) row.run(r);
    });
}

template <class F> void for_dtype(DType dtype, const F& f) {
    switch (dtype) {
        case f64: return f(double());
        case f32: return f(float());
        case f16: return f(float16());
        case bf16: return f(bfloat16());
        case i64: return f(std::int64_t());
        case i32: return f(std::int32_t());
        case i16: return f(std::int16_t());
        case i8: return f(std::int8_t());
        case u64: return f(std::uint64_t());
        case u32: return f(std::uint32_t());
        case u16: return f(std::uint16_t());
        default: return f(std::uint8_t());
    }
}

template <class S> void run_reference(const graph::Call& call) {
    const auto& a = call.attrs<BoxAttributes>();
    const View &x = call.inputs[0], &y = call.outputs[0], &indices = call.outputs[1];
    const Samples samples(call);
    Intervals intervals(a);
    const std::int64_t rank = a.sizes.rank(), spatial = product(a.sizes, rank);
    Dims at(y.rank(), 0);
    for (std::int64_t i = 0, n = y.count(); i < n; ++i) {
        intervals.draw(a, samples.data(), at[0] * y.size(1) + at[1]);
        std::int64_t to = 0, named = 0, found = -1;
        for (std::int64_t d = 0; d < y.rank(); ++d) {
            to += at[d] * y.stride(d);
            named += at[d] * indices.stride(d);
        }
        S best = S();
        for (std::int64_t e = 0; e < spatial; ++e) {  // every element: is it in the box?
            std::int64_t rest = e, from = at[0] * x.stride(0) + at[1] * x.stride(1);
            bool inside = true;
            for (std::int64_t d = rank - 1; d >= 0; --d) {
                const Interval box = intervals.axes[static_cast<std::size_t>(d)][static_cast<std::size_t>(at[d + 2])];
                const std::int64_t entry = rest % a.sizes[d];
                rest /= a.sizes[d];
                inside = inside && entry >= box.begin && entry < box.end;
                from += entry * x.stride(d + 2);
            }
            if (!inside) continue;
            const S v = x.as<const S>()[from];
            if (found >= 0 && !(v > best) && v == v) continue;
            best = v;
            found = e;
        }
        y.as<S>()[to] = best;
        indices.as<std::int64_t>()[named] = found;
        for (std::int64_t d = y.rank() - 1; d >= 0 && ++at[d] == y.size(d); --d) at[d] = 0;
    }
}

}  // namespace

const char* box_why_not(const graph::Call& call) {
    std::int64_t spatial = 1;
    for (const std::int64_t s : call.attrs<BoxAttributes>().sizes) spatial *= s;
    return spatial >= INT32_MAX ? "it numbers spatial positions in 32 bits" : nullptr;
}

void box_rows(const graph::Call& call) {
    for_dtype(call.inputs[0].dtype, [&](auto s) { run_rows<decltype(s)>(call); });
}

void box_reference(const graph::Call& call) {
    for_dtype(call.inputs[0].dtype, [&](auto s) { run_reference<decltype(s)>(call); });
}

}  // namespace calor::ops::pool
