// The adjoint of padding with entries of the data: every entry adds up the positions that read it, in their order. It
// is a gather: each row of the result has one writer. f16 and bf16 add in f32 and round once.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "device/cpu/vectorize.h"
#include "ops/view/border.h"

namespace calor::ops {
namespace {

/// The positions that read each entry of an axis, ascending: those of entry j are list[first[j]] .. list[first[j + 1]].
struct Readers {
    std::vector<std::int64_t> first, list;

    explicit Readers(const BorderAxis& axis) {
        std::vector<std::vector<std::int64_t>> of(static_cast<std::size_t>(axis.inner));
        for (std::int64_t i = 0; i < axis.outer; ++i) {
            const std::int64_t entry = axis.padded() ? axis.source[static_cast<std::size_t>(i)] : i;
            of[static_cast<std::size_t>(entry)].push_back(i);
        }
        for (const auto& positions : of) {
            first.push_back(std::ssize(list));
            list.insert(list.end(), positions.begin(), positions.end());
        }
        first.push_back(std::ssize(list));
    }
};

template <class S> using Wide = std::conditional_t<std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>, float, S>;

/// Calls body(offset in the padded data) for every padded row that reads row `row` of the data. `at` is scratch.
template <class F>
void for_each_reader(const std::vector<BorderAxis>& axes, const std::vector<Readers>& readers, std::int64_t row,
                     std::vector<std::int64_t>& at, const F& body) {
    const std::size_t n = axes.size() - 1;
    at.resize(2 * n);  // which reader, and of which entry
    std::int64_t offset = 0;
    for (std::size_t a = n; a-- > 0;) {
        const std::int64_t above = row / axes[a].inner;
        at[n + a] = row - above * axes[a].inner;
        row = above;
        at[a] = readers[a].first[static_cast<std::size_t>(at[n + a])];
        offset += readers[a].list[static_cast<std::size_t>(at[a])] * axes[a].outer_stride;
    }
    for (;;) {
        body(offset);
        std::size_t a = n;
        for (; a > 0; --a) {
            const Readers& r = readers[a - 1];
            const auto entry = static_cast<std::size_t>(at[n + a - 1]);
            const std::int64_t stride = axes[a - 1].outer_stride, before = r.list[static_cast<std::size_t>(at[a - 1])];
            const bool wraps = ++at[a - 1] == r.first[entry + 1];
            if (wraps) at[a - 1] = r.first[entry];
            offset += (r.list[static_cast<std::size_t>(at[a - 1])] - before) * stride;
            if (!wraps) break;
        }
        if (a == 0) return;
    }
}

/// The entries of the last axis that borders repeat.
struct Shared {
    Readers readers;
    std::vector<std::int64_t> entries;

    explicit Shared(const BorderAxis& axis) : readers(axis) {
        for (std::int64_t e = 0; e < axis.inner; ++e) {
            const auto at = static_cast<std::size_t>(e);
            if (readers.first[at + 1] - readers.first[at] > 1) entries.push_back(e);
        }
    }
};

/// Whether a single padded row reads row `row` of the data, and where it is.
bool read_once(const std::vector<BorderAxis>& axes, const std::vector<Readers>& readers, std::int64_t row,
               std::int64_t& offset) {
    offset = 0;
    for (std::size_t a = axes.size() - 1; a-- > 0;) {
        const std::int64_t above = row / axes[a].inner;
        const auto entry = static_cast<std::size_t>(row - above * axes[a].inner);
        row = above;
        const std::int64_t first = readers[a].first[entry];
        if (readers[a].first[entry + 1] - first != 1) return false;
        offset += readers[a].list[static_cast<std::size_t>(first)] * axes[a].outer_stride;
    }
    return true;
}

/// Entries [begin, end) of the last axis, row by row.
template <class S> class FoldRows {
public:
    using T = Wide<S>;
    FoldRows(const BorderAxis& axis, const Shared& shared, DType dtype, std::int64_t widest)
        : axis_(axis),
          shared_(shared),
          widen_(cpu::find_convert(dtype, compute_type(dtype))),
          narrow_(cpu::find_convert(compute_type(dtype), dtype)),
          raw_(static_cast<std::size_t>(widest)),
          wide_(static_cast<std::size_t>(std::is_same_v<S, T> ? 0 : widest)),
          sums_(static_cast<std::size_t>(std::is_same_v<S, T> ? 0 : widest)) {}

    /// The only padded row that reads this one: what no border repeats is copied.
    void copy(S* to, std::int64_t first, std::int64_t count, const S* from) {
        const std::int64_t step = axis_.outer_stride;
        const S* data = from + (axis_.padded() ? axis_.low : first) * step;
        if (step == 1) {
            std::memcpy(static_cast<void*>(to), data, static_cast<std::size_t>(count) * sizeof(S));
        } else {
            cpu::gather(to, data, step, sizeof(S), count);
        }
        if (!axis_.padded()) return;
        for (const std::int64_t entry : shared_.entries) {
            const std::int64_t begin = shared_.readers.first[static_cast<std::size_t>(entry)];
            const std::int64_t end = shared_.readers.first[static_cast<std::size_t>(entry) + 1];
            T sum = static_cast<T>(data[entry * step]);
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t at = shared_.readers.list[static_cast<std::size_t>(i)];
                if (at != axis_.low + entry) sum = static_cast<T>(sum + static_cast<T>(from[at * step]));
            }
            to[entry] = static_cast<S>(sum);
        }
    }

    void begin(S* to, std::int64_t first, std::int64_t count) {
        to_ = to;
        first_ = first;
        count_ = count;
        if constexpr (std::is_same_v<S, T>) {
            out_ = to;
        } else {
            out_ = sums_.data();
        }
        fresh_ = true;
    }
    void add(const S* from) {
        const std::int64_t n = axis_.padded() ? axis_.outer : count_;
        const S* row = from + first_ * axis_.outer_stride;
        if (axis_.outer_stride != 1) {
            cpu::gather(raw_.data(), row, axis_.outer_stride, sizeof(S), n);
            row = raw_.data();
        }
        const T* values = nullptr;
        if constexpr (std::is_same_v<S, T>) {
            values = row;
        } else {
            const void* const in[1] = {row};
            widen_(in, wide_.data(), n, nullptr);
            values = wide_.data();
        }
        T* out = out_;
        const T* data = values + (axis_.padded() ? axis_.low : 0);
        if (fresh_) {
            std::memcpy(static_cast<void*>(out), data, static_cast<std::size_t>(count_) * sizeof(T));
        } else {
            CALOR_VECTORIZE
            for (std::int64_t i = 0; i < count_; ++i) out[i] += data[i];
        }
        fresh_ = false;
        if (!axis_.padded()) return;
        const std::int64_t* source = axis_.source.data();
        for (std::int64_t i = 0; i < axis_.low; ++i) out[source[i]] += values[i];
        for (std::int64_t i = axis_.low + axis_.inner; i < n; ++i) out[source[i]] += values[i];
    }
    void finish() {
        if constexpr (!std::is_same_v<S, T>) {
            const void* const in[1] = {sums_.data()};
            narrow_(in, to_, count_, nullptr);
        }
    }

private:
    const BorderAxis& axis_;
    const Shared& shared_;
    TileKernel widen_, narrow_;
    std::vector<S> raw_;
    std::vector<T> wide_, sums_;
    S* to_ = nullptr;
    T* out_ = nullptr;
    std::int64_t first_ = 0, count_ = 0;
    bool fresh_ = true;
};

template <class S> void fold_rows(const graph::Call& call) {
    const View &outer = call.inputs[0], &inner = call.outputs[0];
    const std::vector<BorderAxis> axes = border_axes(call.attrs<BorderAttributes>(), inner, outer, inner);
    std::vector<Readers> readers;
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) readers.emplace_back(axes[a]);
    const BorderAxis& last = axes.back();
    const Shared shared(last);
    constexpr std::int64_t piece = 4096;  // of rows that nothing is done to
    const std::int64_t width = last.padded() ? last.inner : std::min(piece, last.inner);
    cpu::parallel_for(inner.count() / last.inner, std::max<std::int64_t>(1, 16384 / last.outer),
                      [&](std::int64_t begin, std::int64_t end) {
                          std::vector<std::int64_t> at_scratch;
                          FoldRows<S> fold(last, shared, outer.dtype, last.padded() ? last.outer : width);
                          for (std::int64_t row = begin; row < end; ++row) {
                              std::int64_t only = 0;
                              const bool once = read_once(axes, readers, row, only);
                              for (std::int64_t at = 0; at < last.inner; at += width) {
                                  if (once) {
                                      fold.copy(inner.as<S>() + row * last.inner + at, at,
                                                std::min(width, last.inner - at), outer.as<const S>() + only);
                                      continue;
                                  }
                                  fold.begin(inner.as<S>() + row * last.inner + at, at,
                                             std::min(width, last.inner - at));
                                  for_each_reader(axes, readers, row, at_scratch,
                                                  [&](std::int64_t offset) { fold.add(outer.as<const S>() + offset); });
                                  fold.finish();
                              }
                          }
                      });
}

template <class S> void fold_reference(const graph::Call& call) {
    const View &outer = call.inputs[0], &inner = call.outputs[0];
    const auto& a = call.attrs<BorderAttributes>();
    std::vector<Wide<S>> sums(static_cast<std::size_t>(inner.count()), Wide<S>(0));
    Dims at(outer.rank(), 0);
    for (std::int64_t i = 0, n = outer.count(); i < n; ++i) {
        std::int64_t from = 0, to = 0;
        for (std::int64_t d = 0; d < outer.rank(); ++d) {
            from += at[d] * outer.stride(d);
            to = to * inner.size(d) + border_source(a.mode, at[d] - a.low[d], inner.size(d));
        }
        sums[static_cast<std::size_t>(to)] += static_cast<Wide<S>>(outer.as<const S>()[from]);
        for (std::int64_t d = outer.rank() - 1; d >= 0 && ++at[d] == outer.size(d); --d) at[d] = 0;
    }
    at = Dims(inner.rank(), 0);
    for (const Wide<S> sum : sums) {
        std::int64_t to = 0;
        for (std::int64_t d = 0; d < inner.rank(); ++d) to += at[d] * inner.stride(d);
        inner.as<S>()[to] = static_cast<S>(sum);
        for (std::int64_t d = inner.rank() - 1; d >= 0 && ++at[d] == inner.size(d); --d) at[d] = 0;
    }
}

}  // namespace

void border_grad_rows(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    switch (call.outputs[0].dtype) {
        case f64: return fold_rows<double>(call);
        case f32: return fold_rows<float>(call);
        case f16: return fold_rows<float16>(call);
        default: return fold_rows<bfloat16>(call);
    }
}

void border_grad_reference(const graph::Call& call) {
    switch (call.outputs[0].dtype) {
        case f64: return fold_reference<double>(call);
        case f32: return fold_reference<float>(call);
        case f16: return fold_reference<float16>(call);
        default: return fold_reference<bfloat16>(call);
    }
}

}  // namespace calor::ops
