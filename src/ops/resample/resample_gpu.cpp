// Tables on GPUs. They travel in one piece a call. Axes whose taps multiply to few are applied by one kernel, whose
// loads overlap in the caches; else one after the other, with intermediate results in the compute type. Axes go in the
// order in which least is computed: those that shrink most first.
#include <functional>
#include <vector>

#include "ops/resample/resample_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile resample_select;
extern const gpu::KernelFile resample_tables;
}  // namespace kernels

namespace ops::resample {
namespace {

constexpr std::int64_t most_fused_taps = 36, most_fused = 3;

class Resampling {
public:
    explicit Resampling(const graph::Call& call)
        : call_(call), a_(call.attrs<Attributes>()), axes_(axes_of(call)), y_(call.outputs[0]) {
        for (std::size_t i = 0; i < axes_.size(); ++i) {
            if (axes_[i].table) passes_.push_back(i);
        }
    }

    void select() const {
        const DeviceTables tables = tables_on_device(call_, used_tables(), Weights::f32);
        Dims first;
        std::size_t next = 0;
        for (const Axis& a : axes_) first.push_back(a.table ? tables.indices[next++] : -1);
        const Axis& row = axes_.back();
        const std::int64_t n = neighbours_of(row.out, y_.dtype);
        start(kernels::resample_select, "resample_select", axes_)
            .constant("E", carrier(y_.dtype))
            .constant("V", n)
            .constant("TABLED", row.table != nullptr)
            .constant("BESIDE", lies_beside(axes_, call_.inputs[0].data, y_.dtype, n))
            .buffer(call_.inputs[0])
            .buffer(y_)
            .buffer(tables.ints)
            .size(y_.count())
            .layout(outs(axes_), {strides(axes_), dense(axes_), first})
            .over(y_.count(), n);
    }

    void arithmetic() {
        order_passes();
        const Weights weights = a_.fixed_point ? Weights::fixed_point : y_.dtype == f64 ? Weights::f64 : Weights::f32;
        const DeviceTables tables = tables_on_device(call_, used_tables(), weights);
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
            run(now, p, n,
                {source, in, target, out, tables.ints->data, tables.weights->data, last ? tables.divisor : 1});
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

    std::vector<const Table*> used_tables() const {
        std::vector<const Table*> all;
        for (const std::size_t p : passes_) all.push_back(axes_[p].table);
        return all;
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
    /// Whether n neighbours along the last axis can be read at once.
    static bool lies_beside(const std::vector<Axis>& axes, const void* data, DType dtype, std::int64_t n) {
        const auto whole = [&](const Axis& a) { return a.in == 1 || a.stride % n == 0; };
        return axes.back().stride == 1 && std::all_of(axes.begin(), axes.end() - 1, whole) &&
               reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(n * size_of(dtype)) == 0;
    }
    gpu::Launch start(const gpu::KernelFile& file, const char* entry, const std::vector<Axis>& axes) const {
        gpu::Launch l = launch(call_, file, entry);
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
        const bool fixed = a_.fixed_point;
        const DType compute = y_.dtype == f64 ? f64 : f32;
        const std::int64_t v = fixed ? 1 : neighbours(now, p, n, pass);
        gpu::Launch l = start(kernels::resample_tables, fixed ? "resample_fixed" : "resample", now);
        l.constant("X", pass.in).constant("Y", pass.out).constant("V", v).constant("A", compute);
        if (!fixed) l.constant("TABLES", static_cast<std::int64_t>(n)).constant("TO_BYTES", pass.out == u8);
        l.buffer(pass.x).buffer(pass.y).buffer(pass.ints).buffer(pass.weights).size(count).size(axis(0));
        if (!fixed) l.size(axis(1)).size(axis(2));
        l.size(static_cast<std::int64_t>(p));
        if (!fixed) l.number(pass.divisor, compute);
        l.layout(outs(now), {strides(now)}).over(count, v);
    }
    /// How many neighbours along the last axis, which has none of the tables from p on, are read and written at once.
    std::int64_t neighbours(const std::vector<Axis>& now, std::size_t p, std::size_t n, const Pass& pass) const {
        for (std::size_t i = p; i < p + n; ++i) {
            if (passes_[i] + 1 == now.size()) return 1;
        }
        const DType wider = size_of(pass.in) > size_of(pass.out) ? pass.in : pass.out;
        std::int64_t v = neighbours_of(now.back().out, wider);
        while (v > 1 && !lies_beside(now, pass.x, pass.in, v)) v /= 2;
        return v;
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
