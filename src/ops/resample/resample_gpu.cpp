// Tables on GPUs. They travel in one piece a call. Axes whose taps multiply to few are applied by one kernel, whose
// loads overlap in the caches; else one after the other, with intermediate results in the compute type. Axes go in the
// order in which least is computed: those that shrink most first.
#include <functional>
#include <vector>

#include "ops/resample/resample.h"
#include "ops/spatial_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile resample_tables;
}

namespace ops::resample {
namespace {

constexpr std::int64_t most_fused_taps = 36, most_fused = 3;

/// An axis in the order of the result's memory.
struct Axis {
    std::int64_t in = 1, out = 1, stride = 0;
    const Table* table = nullptr;
    std::int64_t logical = 0;  ///< number among the tensor's axes (of the last one that was joined)
};

/// Axes of x and y, joined where no table is and neither side has a gap. The result is dense in this order.
std::vector<Axis> axes_of(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    const auto& a = call.attrs<Attributes>();
    Dims order;
    for (std::int64_t d = 0; d < y.rank(); ++d) {
        if (y.size(d) != 1 || a.table_of(d)) order.push_back(d);
    }
    std::ranges::stable_sort(
        order, [&](std::int64_t p, std::int64_t q) { return std::abs(y.stride(p)) > std::abs(y.stride(q)); });
    std::vector<Axis> axes;
    for (const std::int64_t d : order) {
        const Axis axis{x.size(d), y.size(d), x.stride(d), a.table_of(d), d};
        if (!axes.empty() && !axis.table && !axes.back().table && axes.back().stride == axis.stride * axis.in) {
            axes.back() = {axes.back().in * axis.in, axes.back().out * axis.out, axis.stride, nullptr, d};
        } else {
            axes.push_back(axis);
        }
    }
    if (axes.empty()) axes.emplace_back();
    return axes;
}

/// The numbers of all tables as the kernels take them.
struct Packed {
    std::vector<std::int32_t> ints;
    std::vector<std::int64_t> indices;  ///< where a table's indices begin
    std::vector<double> weights;
    std::vector<std::int32_t> fixed;

    explicit Packed(const std::vector<const Table*>& tables, bool fixed_point) : ints(4 * tables.size(), 0) {
        for (std::size_t i = 0; i < tables.size(); ++i) {
            const Table& t = *tables[i];
            const auto here = [&] { return static_cast<std::int32_t>(ints.size()); };
            const auto put = [&](std::size_t at, std::int32_t value) { ints[4 * i + at] = value; };
            put(0, here());
            ints.insert(ints.end(), t.start.begin(), t.start.end());
            put(1, here());
            indices.push_back(here());
            ints.insert(ints.end(), t.index.begin(), t.index.end());
            put(3, -1);
            if (fixed_point) {
                put(2, static_cast<std::int32_t>(fixed.size()));
                fixed.insert(fixed.end(), t.fixed.begin(), t.fixed.end());
                continue;
            }
            put(2, static_cast<std::int32_t>(weights.size()));
            weights.insert(weights.end(), t.weight.begin(), t.weight.end());
            if (t.divisors.empty()) continue;
            put(3, static_cast<std::int32_t>(weights.size()));
            weights.insert(weights.end(), t.divisors.begin(), t.divisors.end());
        }
    }
};

class Resampling {
public:
    explicit Resampling(const graph::Call& call)
        : call_(call), a_(call.attrs<Attributes>()), axes_(axes_of(call)), y_(call.outputs[0]) {
        for (std::size_t i = 0; i < axes_.size(); ++i) {
            if (axes_[i].table) passes_.push_back(i);
        }
    }

    void select() const {
        const Packed packed(tables(), false);
        const Ref<Storage> ints = upload(packed.ints);
        Dims first;
        std::size_t next = 0;
        for (const Axis& a : axes_) first.push_back(a.table ? packed.indices[next++] : -1);
        start("resample_select", axes_)
            .constant("E", carrier(y_.dtype))
            .buffer(call_.inputs[0])
            .buffer(y_)
            .buffer(ints)
            .size(y_.count())
            .layout(outs(axes_), {strides(axes_), dense(axes_), first})
            .over(y_.count());
    }

    void arithmetic() {
        order_passes();
        const Packed packed(tables(), a_.fixed_point);
        const Ref<Storage> ints = upload(packed.ints), weights = a_.fixed_point    ? upload(packed.fixed)
                                                                 : y_.dtype == f64 ? upload(packed.weights)
                                                                                   : upload(narrowed(packed.weights));
        double divisor = 1;
        if (!a_.fixed_point) {
            for (const std::size_t p : passes_) divisor *= axes_[p].table->divisor;
        }
        std::vector<Axis> now = axes_;
        for (Axis& a : now) a.out = a.in;  // what has been computed so far
        Ref<Storage> from, to;
        const DType middle = a_.fixed_point ? u8 : y_.dtype == f64 ? f64 : f32;
        for (std::size_t p = 0; p < passes_.size();) {
            const std::size_t n = fused(p);
            for (std::size_t i = p; i < p + n; ++i) now[passes_[i]].out = axes_[passes_[i]].out;
            const bool last = p + n == passes_.size();
            std::int64_t count = 1;
            for (const Axis& a : now) count *= a.out;
            if (!last) to = graph::scratch(call_, count * size_of(middle));
            const void* source = from ? from->data : call_.inputs[0].data;
            void* target = last ? y_.data : to->data;
            const DType in = from ? middle : call_.inputs[0].dtype, out = last ? y_.dtype : middle;
            run(now, p, n, {source, in, target, out, ints->data, weights->data, last ? divisor : 1});
            const Dims packed_strides = dense(now);
            for (std::size_t i = 0; i < now.size(); ++i) {
                now[i].in = now[i].out;
                now[i].stride = packed_strides[static_cast<std::int64_t>(i)];
            }
            from = to;
            p += n;
        }
    }

private:
    struct Pass {
        const void* x;
        DType in;
        void* y;
        DType out;
        const void *ints, *weights;
        double divisor;
    };

    std::vector<const Table*> tables() const {
        std::vector<const Table*> all;
        for (const std::size_t p : passes_) all.push_back(axes_[p].table);
        return all;
    }
    static std::vector<float> narrowed(const std::vector<double>& values) { return {values.begin(), values.end()}; }
    template <class T> Ref<Storage> upload(const std::vector<T>& values) const {
        const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
        Ref<Storage> memory = graph::scratch(call_, std::max<std::int64_t>(bytes, 8));
        if (bytes > 0) call_.backend.stream().copy_to_device(memory->data, values.data(), bytes);
        return memory;
    }

    /// Fixed point goes from the last axis to the first; else what shrinks most comes first.
    void order_passes() {
        const auto ratio = [&](std::size_t p) {
            return static_cast<double>(axes_[p].out) / static_cast<double>(std::max<std::int64_t>(1, axes_[p].in));
        };
        if (!a_.fixed_point) {
            std::ranges::stable_sort(passes_, [&](std::size_t p, std::size_t q) { return ratio(p) < ratio(q); });
            return;
        }
        std::ranges::sort(passes_, std::greater{}, [&](std::size_t p) { return axes_[p].logical; });
    }
    /// How many passes from p on run as one.
    std::size_t fused(std::size_t p) const {
        std::size_t n = 1;
        if (a_.fixed_point) return n;
        std::int64_t taps = axes_[passes_[p]].table->most_taps;
        while (p + n < passes_.size() && static_cast<std::int64_t>(n) < most_fused) {
            taps *= std::max<std::int64_t>(1, axes_[passes_[p + n]].table->most_taps);
            if (taps > most_fused_taps) break;
            ++n;
        }
        return n;
    }

    static Dims outs(const std::vector<Axis>& axes) {
        Dims list;
        for (const Axis& a : axes) list.push_back(a.out);
        return list;
    }
    static Dims strides(const std::vector<Axis>& axes) {
        Dims list;
        for (const Axis& a : axes) list.push_back(a.stride);
        return list;
    }
    static Dims dense(const std::vector<Axis>& axes) {
        Dims list = outs(axes);
        std::int64_t step = 1;
        for (std::int64_t i = list.rank() - 1; i >= 0; --i) {
            const std::int64_t size = list[i];
            list[i] = step;
            step *= size;
        }
        return list;
    }
    gpu::Launch start(const char* entry, const std::vector<Axis>& axes) const {
        gpu::Launch l = launch(call_, kernels::resample_tables, entry);
        l.constant("RANK", std::ssize(axes));
        std::int64_t reach = 0;  // of what is read, whose sizes no layout shows
        for (const Axis& a : axes) reach = std::max(reach, a.in * std::abs(a.stride));
        l.wide(reach >= std::int64_t{1} << 30);
        return l;
    }

    void run(const std::vector<Axis>& now, std::size_t p, std::size_t n, const Pass& pass) const {
        std::int64_t count = 1;
        for (const Axis& a : now) count *= a.out;
        const auto axis = [&](std::size_t i) { return static_cast<std::int64_t>(i < n ? passes_[p + i] : 0); };
        const Dims from = strides(now), to = dense(now);
        gpu::Launch l = start(a_.fixed_point ? "resample_fixed" : "resample", now);
        if (!a_.fixed_point) {
            l.constant("X", pass.in).constant("Y", pass.out).constant("TABLES", static_cast<std::int64_t>(n));
            l.constant("A", y_.dtype == f64 ? f64 : f32).constant("TO_BYTES", pass.out == u8);
        }
        l.buffer(pass.x).buffer(pass.y).buffer(pass.ints).buffer(pass.weights).size(count).size(axis(0));
        if (!a_.fixed_point) l.size(axis(1)).size(axis(2));
        l.size(static_cast<std::int64_t>(p));
        if (!a_.fixed_point) l.number(pass.divisor, y_.dtype == f64 ? f64 : f32);
        l.layout(outs(now), {from, to}).over(count);
    }

    const graph::Call& call_;
    const Attributes& a_;
    std::vector<Axis> axes_;
    std::vector<std::size_t> passes_;
    const View& y_;
};

}  // namespace

void run_select_on_gpu(const graph::Call& call) {
    if (call.outputs[0].count() > 0) Resampling(call).select();
}
void run_on_gpu(const graph::Call& call) {
    const DType dtype = call.outputs[0].dtype;
    if (!is_floating(dtype) && dtype != u8) return run_select_on_gpu(call);  // tables of other dtypes only select
    if (call.outputs[0].count() > 0) Resampling(call).arithmetic();
}

}  // namespace ops::resample
}  // namespace calor
