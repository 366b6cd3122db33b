// Convolution of any rank, dtype and strides as matrix products whose blocks are packed straight from the data
// ("implicit GEMM"): no im2col matrix is ever stored. Once the data has its zeros around it, an address is the sum of a
// part that the tap decides and a part that the position decides, which is what the offset tables of device/cpu/gemm.h
// want.
//
// The input gradient is cut into phases, one for each residue of the positions modulo the stride: in a phase the same
// taps apply everywhere, so that each is a dense convolution of gy with some of the taps. With kernel = stride each has
// one tap.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "ops/conv/conv.h"
#include "ops/widen.h"

namespace calor::ops::conv {
namespace {

using Offsets = std::vector<std::int64_t>;

/// At most so many elements of padded data (and of offsets) exist at once; larger batches are cut.
constexpr std::int64_t chunk_elements = std::int64_t{1} << 25U;

/// One spatial axis of a phase: where the positions and the taps lie in the source data, the result and the weight.
struct PhaseAxis {
    Offsets position_source, position_result, tap_source, tap_weight;  // coordinates, not yet times strides
};
using Phase = std::vector<PhaseAxis>;

PhaseAxis forward_axis(const Window& w, std::int64_t a, std::int64_t positions) {
    PhaseAxis axis;
    for (std::int64_t j = 0; j < positions; ++j) {
        axis.position_source.push_back(j * w.stride[a]);
        axis.position_result.push_back(j);
    }
    for (std::int64_t k = 0; k < w.kernel[a]; ++k) {
        axis.tap_source.push_back(k * w.dilation[a] - w.pad_low[a]);
        axis.tap_weight.push_back(k);
    }
    return axis;
}

/// Input positions i = q stride + residue take tap k from output position q + (residue + low - k dilation) / stride.
PhaseAxis input_grad_axis(const Window& w, std::int64_t a, std::int64_t size, std::int64_t residue) {
    PhaseAxis axis;
    for (std::int64_t i = residue, q = 0; i < size; i += w.stride[a], ++q) {
        axis.position_source.push_back(q);
        axis.position_result.push_back(i);
    }
    for (std::int64_t k = 0; k < w.kernel[a]; ++k) {
        const std::int64_t shift = residue + w.pad_low[a] - k * w.dilation[a];
        if (shift % w.stride[a] != 0) continue;
        axis.tap_source.push_back(shift / w.stride[a]);
        axis.tap_weight.push_back(k);
    }
    return axis;
}

/// The phases that have taps. `complete`: they cover the whole result.
std::vector<Phase> phases(Role role, const Operands& o, const Window& w, bool& complete) {
    std::vector<Phase> all{{}};
    for (std::int64_t a = 0; a < w.rank(); ++a) {
        std::vector<PhaseAxis> axes;
        const std::int64_t size = o.x.size(a + 2);
        if (role != Role::input_grad) {
            axes.push_back(forward_axis(w, a, o.y.size(a + 2)));
        } else {
            for (std::int64_t r = 0; r < std::min(w.stride[a], size); ++r) {
                PhaseAxis axis = input_grad_axis(w, a, size, r);
                if (!axis.tap_source.empty()) axes.push_back(std::move(axis));
            }
            if (std::ssize(axes) < std::min(w.stride[a], size)) complete = false;
        }
        std::vector<Phase> next;
        for (const Phase& phase : all) {
            for (const PhaseAxis& axis : axes) {
                next.push_back(phase);
                next.back().push_back(axis);
            }
        }
        all = std::move(next);
    }
    return all;
}

/// How far the phases read past the source data.
struct Reach {
    Dims low, high;
    bool none() const {
        return std::all_of(low.begin(), low.end(), [](auto v) { return v == 0; }) &&
               std::all_of(high.begin(), high.end(), [](auto v) { return v == 0; });
    }
};

Reach reach_of(const std::vector<Phase>& all, const View& source) {
    const std::int64_t n = source.rank() - 2;
    Reach reach{Dims(n, 0), Dims(n, 0)};
    for (const Phase& phase : all) {
        for (std::int64_t a = 0; a < n; ++a) {
            const PhaseAxis& axis = phase[static_cast<std::size_t>(a)];
            if (axis.position_source.empty()) continue;
            for (const std::int64_t t : axis.tap_source) {
                reach.low[a] = std::max(reach.low[a], -t);
                reach.high[a] = std::max(reach.high[a], axis.position_source.back() + t + 1 - source.size(a + 2));
            }
        }
    }
    return reach;
}

template <class T> void clear(T* data, std::int64_t count) {
    cpu::parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::memset(data + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    });
}

/// Some samples of the source data, wide, with zeros as far as `reach`.
template <class T> class PaddedSource {
public:
    PaddedSource(const graph::Call& call, const View& source, std::int64_t first, std::int64_t count,
                 const Reach& reach)
        : shape_(*source.shape), strides_(*source.strides) {
        shape_[0] = count;
        View part = source;
        part.shape = &shape_;
        part.data = part.as<std::byte>() + first * source.stride(0) * size_of(source.dtype);
        data_ = part.as<const T>();
        const DType wide = wide_type(source.dtype);
        const bool is_wide = size_of(wide) == size_of(source.dtype);
        if ((is_wide && reach.none()) || numel(shape_) == 0) return;
        Shape padded = shape_;
        for (std::int64_t a = 2; a < padded.rank(); ++a) padded[a] += reach.low[a - 2] + reach.high[a - 2];
        const std::int64_t elements = numel(padded, call.where);
        copy_ = graph::scratch(call, checked_bytes(padded, wide, call.where));
        if (!reach.none()) clear(static_cast<T*>(copy_->data), elements);
        strides_ = contiguous_strides(padded);
        T* inside = static_cast<T*>(copy_->data);
        for (std::int64_t a = 2; a < padded.rank(); ++a) inside += reach.low[a - 2] * strides_[a];
        convert_view(part, {inside, is_wide ? source.dtype : wide, &shape_, &strides_});
        data_ = inside;
    }
    PaddedSource(const PaddedSource&) = delete;
    PaddedSource& operator=(const PaddedSource&) = delete;
    const T* data() const { return data_; }
    std::int64_t stride(std::int64_t axis) const { return strides_[axis]; }

private:
    Ref<Storage> copy_;
    Shape shape_;
    Strides strides_;
    const T* data_;
};

Offsets steps(std::int64_t count, std::int64_t stride) {
    Offsets offsets;
    for (std::int64_t i = 0; i < count; ++i) offsets.push_back(i * stride);
    return offsets;
}

/// Every sum of an entry of `offsets` and one of `coordinates` times `stride`; the latter vary fastest.
void extend(Offsets& offsets, const Offsets& coordinates, std::int64_t stride) {
    Offsets out;
    out.reserve(offsets.size() * coordinates.size());
    for (const std::int64_t o : offsets) {
        for (const std::int64_t c : coordinates) out.push_back(o + c * stride);
    }
    offsets = std::move(out);
}

/// The offset tables of a product: c rows by columns, summed over the inner axis, one product a group.
struct Tables {
    Offsets a_row, a_inner, b_inner, b_column, c_row, c_column, a_batch, b_batch, c_batch;

    template <class T> void multiply(const T* a, const T* b, T* c, const T* row_bias, bool accumulate) const {
        cpu::Gemm<T> g{
            .m = std::ssize(c_row), .n = std::ssize(c_column), .k = std::ssize(a_inner), .batch = std::ssize(c_batch)};
        g.a = a;
        g.b = b;
        g.c = c;
        g.a_row = a_row.data();
        g.a_inner = a_inner.data();
        g.b_inner = b_inner.data();
        g.b_column = b_column.data();
        g.c_row = c_row.data();
        g.c_column = c_column.data();
        g.a_batch = a_batch.data();
        g.b_batch = b_batch.data();
        g.c_batch = c_batch.data();
        g.row_bias = row_bias;
        g.accumulate = accumulate;
        cpu::gemm(g);
    }
};

template <class T> struct Runner {
    Role role;
    const graph::Call& call;
    Operands o;
    const Attributes& attributes;
    std::int64_t in, out;  ///< channels a group

    Runner(Role r, const graph::Call& c)
        : role(r),
          call(c),
          o(operands(r, c)),
          attributes(c.attrs<Attributes>()),
          in(o.w.size(1)),
          out(o.w.size(0) / attributes.groups) {}

    /// Forward, and each phase of the input gradient: rows are the result's channels, columns its positions.
    void dense(const Phase& phase, const PaddedSource<T>& source, std::int64_t first, std::int64_t count, const View& w,
               const View& result, const T* bias) const {
        const bool forward = role == Role::forward;
        const std::int64_t rows = forward ? out : in, inner = forward ? in : out, groups = attributes.groups;
        Tables t;
        t.a_row = steps(rows, w.stride(forward ? 0 : 1));
        t.a_inner = steps(inner, w.stride(forward ? 1 : 0));
        t.b_inner = steps(inner, source.stride(1));
        t.b_column = steps(count, source.stride(0));
        t.c_row = steps(rows, result.stride(1));
        t.c_column = steps(count, result.stride(0));
        for (std::int64_t a = 0; a < attributes.window.rank(); ++a) {
            const PhaseAxis& axis = phase[static_cast<std::size_t>(a)];
            extend(t.a_inner, axis.tap_weight, w.stride(a + 2));
            extend(t.b_inner, axis.tap_source, source.stride(a + 2));
            extend(t.b_column, axis.position_source, source.stride(a + 2));
            extend(t.c_column, axis.position_result, result.stride(a + 2));
        }
        t.a_batch = steps(groups, out * w.stride(0));
        t.b_batch = steps(groups, inner * source.stride(1));
        t.c_batch = steps(groups, rows * result.stride(1));
        t.multiply(w.as<const T>(), source.data(), result.as<T>() + first * result.stride(0), bias, false);
    }

    /// The weight gradient: rows are output channels, columns the weight's other axes, the sum runs over positions.
    void weight(const Phase& phase, const PaddedSource<T>& x, std::int64_t first, std::int64_t count, const View& gy,
                const View& result) const {
        Tables t;
        t.a_row = steps(out, gy.stride(1));
        t.a_inner = steps(count, gy.stride(0));
        t.b_inner = steps(count, x.stride(0));
        t.b_column = steps(in, x.stride(1));
        t.c_row = steps(out, result.stride(0));
        t.c_column = steps(in, result.stride(1));
        for (std::int64_t a = 0; a < attributes.window.rank(); ++a) {
            const PhaseAxis& axis = phase[static_cast<std::size_t>(a)];
            extend(t.a_inner, axis.position_result, gy.stride(a + 2));
            extend(t.b_inner, axis.position_source, x.stride(a + 2));
            extend(t.b_column, axis.tap_source, x.stride(a + 2));
            extend(t.c_column, axis.tap_weight, result.stride(a + 2));
        }
        t.a_batch = steps(attributes.groups, out * gy.stride(1));
        t.b_batch = steps(attributes.groups, in * x.stride(1));
        t.c_batch = steps(attributes.groups, out * result.stride(0));
        t.multiply(gy.as<const T>() + first * gy.stride(0), x.data(), result.as<T>(), static_cast<const T*>(nullptr),
                   first > 0);
    }

    void run() const {
        bool complete = true;
        const std::vector<Phase> all = phases(role, o, attributes.window, complete);
        const View& source = role == Role::input_grad ? o.y : o.x;
        const Reach reach = reach_of(all, source);
        const Widened w(call, role == Role::weight_grad ? o.y : o.w);  // the other operand
        const WidenedVector bias(call, role == Role::forward ? o.bias : nullptr);
        const WidenedResult result(call, call.outputs[0]);
        if (!complete) clear(result.view().template as<T>(), result.view().count());
        std::int64_t sample = source.size(1);
        for (std::int64_t a = 2; a < source.rank(); ++a) {
            sample = checked_multiply(sample, source.size(a) + reach.low[a - 2] + reach.high[a - 2], call.where);
        }
        const std::int64_t batch = source.size(0),
                           chunk = std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, sample));
        std::int64_t first = 0;
        do {  // once even for an empty batch: the weight gradient is then zero
            const std::int64_t count = std::min(chunk, batch - first);
            const PaddedSource<T> part(call, source, first, count, reach);
            for (const Phase& phase : all) {
                if (role == Role::weight_grad) {
                    weight(phase, part, first, count, w.view(), result.view());
                } else {
                    dense(phase, part, first, count, w.view(), result.view(), bias.data<T>());
                }
            }
            first += count;
        } while (first < batch);
        result.narrow();
        if (role == Role::weight_grad && o.bias) bias_grad(w.view());
    }

    /// Sums of gy over batch and positions.
    void bias_grad(const View& gy) const {
        using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
        Offsets at = steps(gy.size(0), gy.stride(0));
        for (std::int64_t a = 2; a < gy.rank(); ++a) {
            Offsets coordinates = steps(gy.size(a), 1);
            extend(at, coordinates, gy.stride(a));
        }
        const WidenedResult result(call, *o.bias);
        cpu::parallel_for(gy.size(1), 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t c = begin; c < end; ++c) {
                const T* from = gy.as<const T>() + c * gy.stride(1);
                Sum total = Sum(0);
                for (const std::int64_t i : at) total += static_cast<Sum>(from[i]);
                result.view().template as<T>()[c] = static_cast<T>(total);
            }
        });
        result.narrow();
    }
};

}  // namespace

void run_gemm(Role role, const graph::Call& call) {
    switch (wide_type(call.outputs[0].dtype)) {
        case f64: return Runner<double>(role, call).run();
        case f32: return Runner<float>(role, call).run();
        case u64: return Runner<std::uint64_t>(role, call).run();
        default: return Runner<std::uint32_t>(role, call).run();
    }
}

}  // namespace calor::ops::conv
