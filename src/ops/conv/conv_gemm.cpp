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
#include "ops/conv/conv_problem.h"
#include "ops/widen.h"

namespace calor::ops::conv {
namespace {

using Offsets = std::vector<std::int64_t>;

/// One spatial axis of a phase: where the positions and the taps lie in the source data, the result and the weight.
struct PhaseAxis {
    Offsets position_source, position_result, tap_source, tap_weight;  // coordinates, not yet times strides
};
using Phase = std::vector<PhaseAxis>;

PhaseAxis forward_axis(const Problem& p, std::int64_t a) {
    const cpu::ConvSettings& s = p.settings;
    PhaseAxis axis;
    for (std::int64_t j = 0; j < p.y.size(a + 2); ++j) {
        axis.position_source.push_back(j * s.stride[a]);
        axis.position_result.push_back(j);
    }
    for (std::int64_t k = 0; k < p.w.size(a + 2); ++k) {
        axis.tap_source.push_back(k * s.dilation[a] - s.pad_low[a]);
        axis.tap_weight.push_back(k);
    }
    return axis;
}

/// Input positions i = q stride + residue take tap k from output position q + (residue + low - k dilation) / stride.
PhaseAxis input_grad_axis(const Problem& p, std::int64_t a, std::int64_t residue) {
    const cpu::ConvSettings& s = p.settings;
    PhaseAxis axis;
    for (std::int64_t i = residue, q = 0; i < p.x.size(a + 2); i += s.stride[a], ++q) {
        axis.position_source.push_back(q);
        axis.position_result.push_back(i);
    }
    for (std::int64_t k = 0; k < p.w.size(a + 2); ++k) {
        const std::int64_t shift = residue + s.pad_low[a] - k * s.dilation[a];
        if (shift % s.stride[a] != 0) continue;
        axis.tap_source.push_back(shift / s.stride[a]);
        axis.tap_weight.push_back(k);
    }
    return axis;
}

/// The phases that have taps. `complete`: they cover the whole result.
std::vector<Phase> phases(const Problem& p, bool& complete) {
    std::vector<Phase> all{{}};
    for (std::int64_t a = 0; a < p.axes(); ++a) {
        std::vector<PhaseAxis> axes;
        if (p.role != Role::input_grad) {
            axes.push_back(forward_axis(p, a));
        } else {
            const std::int64_t residues = std::min(p.settings.stride[a], p.x.size(a + 2));
            for (std::int64_t r = 0; r < residues; ++r) {
                PhaseAxis axis = input_grad_axis(p, a, r);
                if (!axis.tap_source.empty()) axes.push_back(std::move(axis));
            }
            if (std::ssize(axes) < residues) complete = false;
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

Reach none(std::int64_t axes) { return {Dims(axes, 0), Dims(axes, 0)}; }

Reach reach_of(const std::vector<Phase>& all, const Array& source) {
    const std::int64_t n = source.shape.rank() - 2;
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

void clear(void* data, std::int64_t bytes) {
    cpu::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<std::byte*>(data) + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

/// What a product reads: wide numbers, or bf16 that packing widens.
template <class T> struct Source {
    const T* wide = nullptr;
    const bfloat16* half = nullptr;
};
template <class T> Source<T> source_of(const void* data, DType dtype) {
    if (dtype == bf16) return {nullptr, static_cast<const bfloat16*>(data)};
    return {static_cast<const T*>(data), nullptr};
}
/// The dtype that an operand is read in.
DType read_type(DType dtype) {
    if (dtype == bf16) return bf16;
    const DType wide = wide_type(dtype);
    return size_of(wide) == size_of(dtype) ? dtype : wide;
}

/// The source data as it is read, with zeros as far as `reach`.
template <class T> class PaddedSource {
public:
    PaddedSource(const graph::Call& call, const Array& source, const Reach& reach)
        : strides_(source.strides), data_(source_of<T>(source.data, source.dtype)) {
        const DType type = read_type(source.dtype);
        if ((type == source.dtype && reach.none()) || numel(source.shape) == 0) return;
        Shape padded = source.shape;
        for (std::int64_t a = 2; a < padded.rank(); ++a) {
            padded[a] =
                checked_add(padded[a], checked_add(reach.low[a - 2], reach.high[a - 2], call.where), call.where);
        }
        const std::int64_t bytes = checked_bytes(padded, type, call.where);
        copy_ = graph::scratch(call, bytes);
        if (!reach.none()) clear(copy_->data, bytes);
        strides_ = contiguous_strides(padded);
        std::int64_t inside = 0;
        for (std::int64_t a = 2; a < padded.rank(); ++a) inside += reach.low[a - 2] * strides_[a];
        void* const start = static_cast<std::byte*>(copy_->data) + inside * size_of(type);
        convert_view(source.view(), {start, type, &source.shape, &strides_});
        data_ = source_of<T>(start, type);
    }
    PaddedSource(const PaddedSource&) = delete;
    PaddedSource& operator=(const PaddedSource&) = delete;
    Source<T> data() const { return data_; }
    std::int64_t stride(std::int64_t axis) const { return strides_[axis]; }

private:
    Ref<Storage> copy_;
    Strides strides_;
    Source<T> data_;
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

    template <class T> void multiply(Source<T> a, Source<T> b, T* c, const T* row_bias, bool accumulate) const {
        cpu::Gemm<T> g{
            .m = std::ssize(c_row), .n = std::ssize(c_column), .k = std::ssize(a_inner), .batch = std::ssize(c_batch)};
        g.a = a.wide;
        g.a_bf16 = a.half;
        g.b = b.wide;
        g.b_bf16 = b.half;
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

/// A piece's result in its wide type: in place where it is wide already, else a copy that give_back() narrows.
template <class T> class WideResult {
public:
    WideResult(const graph::Call& call, const Array& result) : result_(result), view_(result) {
        const DType wide = wide_type(result.dtype);
        if (size_of(wide) == size_of(result.dtype)) return;
        copy_ = graph::scratch(call, checked_bytes(result.shape, wide, call.where));
        view_.data = copy_->data;
        view_.dtype = wide;
        view_.strides = contiguous_strides(result.shape);
    }
    WideResult(const WideResult&) = delete;
    WideResult& operator=(const WideResult&) = delete;
    T* data() const { return static_cast<T*>(view_.data); }
    const Array& array() const { return view_; }
    void give_back() const {
        if (copy_) convert_view(view_.view(), result_.view());
    }

private:
    Ref<Storage> copy_;
    const Array& result_;
    Array view_;
};

template <class T> class Runner {
public:
    Runner(Role role, const graph::Call& c) : call(c), whole(problem_of(role, c)) {}

    void run() {
        const WidenedVector bias(call, whole.role != Role::weight_grad && whole.bias ? &call.inputs[2] : nullptr);
        if (whole.role == Role::weight_grad) return run_weight();
        const Array given = whole.w;
        const View view = given.view();
        const Widened w(call, view, read_type(given.dtype) == given.dtype ? given.dtype : wide_type(given.dtype));
        whole.w = Array(w.view());
        for_pieces(simplified(whole), piece_elements / 2, [&](const Problem& p) { dense(p, bias.data<T>()); });
    }

private:
    /// Forward and input gradient.
    void dense(const Problem& p, const T* bias) const {
        bool complete = true;
        const std::vector<Phase> all = phases(p, complete);
        const Array& from = p.role == Role::forward ? p.x : p.y;
        const PaddedSource<T> source(call, from, reach_of(all, from));
        const WideResult<T> result(call, p.result());
        if (!complete) fill(result.array(), bias);
        for (const Phase& phase : all) multiply_phase(p, phase, source, result, bias);
        result.give_back();
    }

    /// What no tap reaches: the bias or zeros.
    void fill(const Array& to, const T* bias) const {
        T zero = T(0);
        Strides strides(to.shape.rank(), 0);
        if (bias) strides[1] = 1;
        const View from{bias ? const_cast<T*>(bias) : &zero, to.dtype, &to.shape, &strides};
        copy_view(from, to.view());
    }

    /// Rows are the result's channels, columns its positions.
    void multiply_phase(const Problem& p, const Phase& phase, const PaddedSource<T>& source, const WideResult<T>& wide,
                        const T* bias) const {
        const bool forward = p.role == Role::forward;
        const Array &w = p.w, &result = wide.array();
        const std::int64_t groups = p.settings.groups, in = w.size(1), out = w.size(0) / groups;
        const std::int64_t rows = forward ? out : in, inner = forward ? in : out, count = result.size(0);
        Tables t;
        t.a_row = steps(rows, w.stride(forward ? 0 : 1));
        t.a_inner = steps(inner, w.stride(forward ? 1 : 0));
        t.b_inner = steps(inner, source.stride(1));
        t.b_column = steps(count, source.stride(0));
        t.c_row = steps(rows, result.stride(1));
        t.c_column = steps(count, result.stride(0));
        for (std::int64_t a = 0; a < p.axes(); ++a) {
            const PhaseAxis& axis = phase[static_cast<std::size_t>(a)];
            extend(t.a_inner, axis.tap_weight, w.stride(a + 2));
            extend(t.b_inner, axis.tap_source, source.stride(a + 2));
            extend(t.b_column, axis.position_source, source.stride(a + 2));
            extend(t.c_column, axis.position_result, result.stride(a + 2));
        }
        t.a_batch = steps(groups, out * w.stride(0));
        t.b_batch = steps(groups, inner * source.stride(1));
        t.c_batch = steps(groups, rows * result.stride(1));
        t.multiply(source_of<T>(w.data, w.dtype), source.data(), wide.data(), bias, false);
    }

    void run_weight() {
        const Array given = whole.w;
        const WideResult<T> total(call, given);
        whole.w = total.array();
        bool first = true;
        for_pieces(simplified(whole), piece_elements / 2, [&](const Problem& p) {  // once even for an empty batch
            add_weight(p, first);
            first = false;
        });
        total.give_back();
        if (whole.bias) bias_grad(*whole.bias, whole.y);
    }

    /// Rows are output channels, columns the weight's other axes, the sum runs over positions.
    void add_weight(const Problem& p, bool first) const {
        bool complete = true;
        const Phase phase = phases(p, complete)[0];
        const PaddedSource<T> x(call, p.x, reach_of({phase}, p.x)), y(call, p.y, none(p.axes()));
        const std::int64_t groups = p.settings.groups, in = p.w.size(1), out = p.w.size(0) / groups;
        Tables t;
        t.a_row = steps(out, y.stride(1));
        t.a_inner = steps(p.x.size(0), y.stride(0));
        t.b_inner = steps(p.x.size(0), x.stride(0));
        t.b_column = steps(in, x.stride(1));
        t.c_row = steps(out, p.w.stride(0));
        t.c_column = steps(in, p.w.stride(1));
        for (std::int64_t a = 0; a < p.axes(); ++a) {
            const PhaseAxis& axis = phase[static_cast<std::size_t>(a)];
            extend(t.a_inner, axis.position_result, y.stride(a + 2));
            extend(t.b_inner, axis.position_source, x.stride(a + 2));
            extend(t.b_column, axis.tap_source, x.stride(a + 2));
            extend(t.c_column, axis.tap_weight, p.w.stride(a + 2));
        }
        t.a_batch = steps(groups, out * y.stride(1));
        t.b_batch = steps(groups, in * x.stride(1));
        t.c_batch = steps(groups, out * p.w.stride(0));
        t.multiply(y.data(), x.data(), p.w.view().as<T>(), static_cast<const T*>(nullptr), !first);
    }

    /// Sums of gy over batch and positions, a row of the innermost axis at a time.
    void bias_grad(const Array& bias, const Array& y) const {
        using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
        const std::int64_t channels = y.size(1);
        const WideResult<T> result(call, bias);
        std::vector<Sum> totals(static_cast<std::size_t>(channels), Sum(0));
        Problem part = whole;
        for_pieces(part, piece_elements / 2, [&](const Problem& p) {
            const View given = p.y.view();
            const Widened gy(call, given);
            Offsets at = steps(gy.view().size(0), gy.view().stride(0));
            for (std::int64_t a = 2; a < gy.view().rank(); ++a) {
                extend(at, steps(gy.view().size(a), 1), gy.view().stride(a));
            }
            cpu::parallel_for(channels, 1, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t c = begin; c < end; ++c) {
                    const T* from = gy.view().template as<const T>() + c * gy.view().stride(1);
                    Sum& total = totals[static_cast<std::size_t>(c)];
                    for (const std::int64_t i : at) total += static_cast<Sum>(from[i]);
                }
            });
        });
        for (std::int64_t c = 0; c < channels; ++c)
            result.data()[c * result.array().stride(0)] = static_cast<T>(totals[static_cast<std::size_t>(c)]);
        result.give_back();
    }

    const graph::Call& call;
    Problem whole;
};

}  // namespace

void run_gemm(Role role, const graph::Call& call) {
    if (without_products(role, call)) return;
    switch (wide_type(call.outputs[0].dtype)) {
        case f64: return Runner<double>(role, call).run();
        case f32: return Runner<float>(role, call).run();
        case u64: return Runner<std::uint64_t>(role, call).run();
        default: return Runner<std::uint32_t>(role, call).run();
    }
}

}  // namespace calor::ops::conv
