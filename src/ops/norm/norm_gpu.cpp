// Normalisation on GPUs. Many groups whose elements lie together: one launch finds the statistics and writes the
// results. Few large groups, or groups side by side (channels-last): sums in two stages, then one launch over all
// elements. The gradients of weight and bias are the same sums over other axes.
#include <algorithm>

#include "ops/gpu.h"
#include "ops/norm/normalize.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile norm_norm;
}

namespace ops {
namespace {

constexpr std::int64_t threads = 256;
constexpr std::int64_t state_bytes = 32;  // of norm.kernel, at most
constexpr std::size_t operands = 7;       // in the kernels' order
enum Operand : std::size_t { of_x, of_g, of_y, of_mean, of_variance, of_weight, of_bias };

struct Axis {
    std::int64_t size = 1;
    std::int64_t strides[operands] = {};
    bool reduced = false;
};
using AxisList = std::vector<Axis>;

std::int64_t product(const AxisList& axes) {
    std::int64_t n = 1;
    for (const Axis& a : axes) n *= a.size;
    return n;
}

/// Joins neighbours that every operand walks without a gap; with `apart`, only those of one kind.
AxisList joined(const AxisList& axes, bool apart) {
    AxisList all;
    for (const Axis& a : axes) {
        bool joins = !all.empty() && (!apart || all.back().reduced == a.reduced);
        for (std::size_t o = 0; o < operands && joins; ++o) joins = all.back().strides[o] == a.strides[o] * a.size;
        if (joins) {
            const std::int64_t outer = all.back().size;
            all.back() = a;
            all.back().size *= outer;
        } else {
            all.push_back(a);
        }
    }
    return all;
}

struct Layout7 {
    Dims sizes;
    std::vector<Strides> strides;
    std::vector<std::span<const std::int64_t>> lists() const { return {strides.begin(), strides.end()}; }
    std::int64_t rank() const { return sizes.rank(); }
};
/// Unit axes in front, so that few ranks are compiled.
Layout7 layout_of(const AxisList& axes, bool any) {
    std::int64_t rank = std::ssize(axes);
    for (const std::int64_t r : {1, 3, 6}) {
        if (rank > r || (any && r < 6)) continue;
        rank = r;
        break;
    }
    Layout7 l{Dims(rank, 1), std::vector<Strides>(operands, Strides(rank, 0))};
    for (std::int64_t i = 0, first = rank - std::ssize(axes); first + i < rank; ++i) {
        const Axis& a = axes[static_cast<std::size_t>(i)];
        l.sizes[first + i] = a.size;
        for (std::size_t o = 0; o < operands; ++o) l.strides[o][first + i] = a.strides[o];
    }
    return l;
}

int bits(std::int64_t lanes) {
    int shift = 0;
    while ((std::int64_t{1} << shift) < lanes) ++shift;
    return shift;
}

class Problem {
public:
    Problem(const graph::Call& c, bool grad) : call_(c), a_(c.attrs<NormAttributes>()), grad_(grad) {
        if (grad) {
            views_[of_g] = &c.inputs[0];
            views_[of_x] = &c.inputs[1];
            views_[of_mean] = &c.inputs[2];
            views_[of_variance] = &c.inputs[3];
            if (a_.weight) views_[of_weight] = &c.inputs[4];
        } else {
            views_[of_x] = views_[of_g] = &c.inputs[0];
            views_[of_mean] = a_.given ? &c.inputs[1] : &c.outputs[1];
            views_[of_variance] = a_.given ? &c.inputs[2] : &c.outputs[2];
            const std::size_t next = a_.given ? 3 : 1;
            if (a_.weight) views_[of_weight] = &c.inputs[next];
            if (a_.bias) views_[of_bias] = &c.inputs[next + (a_.weight ? 1 : 0)];
        }
        views_[of_y] = &c.outputs[0];
        wide_ = c.backend.gpu()->traits().f64 ? f64 : f32;
        units_ = c.backend.gpu()->traits().units;
        subgroup_ = c.backend.gpu()->traits().subgroup;
        count_ = views_[of_x]->count();
        small_ = count_ < (subgroup_ > 1 ? 8192 : 1024);
    }

    void forward() {
        if (a_.given) return apply();
        divide(a_.axes, false);
        if (fused()) return run_fused();
        sum_up(flags(), call_.outputs[1], call_.outputs[2], {});
        apply();
    }
    void backward() {
        divide(a_.axes, false);
        if (fused()) {
            run_fused();
        } else {
            const Ref<Storage> sums = graph::scratch(call_, product(kept_) * 2 * size_of(wide_));
            sum_up(flags(), {}, {}, sums);
            apply_grad(sums);
        }
        if (!a_.affine_gradients) return;
        Axes others;
        for (std::int64_t axis = 0; axis < x().rank(); ++axis) {
            if (a_.affine[axis] == 1) others.push_back(axis);
        }
        // The results take the place of the bias in the layout.
        views_[of_bias] = &call_.outputs[1];
        divide(others, true);
        sum_up(flags() & ~1, call_.outputs[1], call_.outputs[2], {});
    }

private:
    const View& x() const { return *views_[of_x]; }
    int flags() const { return (a_.weight ? 1 : 0) | (a_.bias && !grad_ ? 2 : 0) | (a_.centred ? 4 : 0); }
    DType dtype(Operand o) const { return views_[o] ? views_[o]->dtype : x().dtype; }
    const void* data(Operand o) const { return views_[o] ? views_[o]->data : x().data; }

    /// Axes in the order of x's memory, split into those that tell groups apart and those of a group. `affine`: the
    /// groups are the elements of the weight, whose gradient lies where the bias' strides say; else the bias' strides
    /// of the gradient number the groups.
    void divide(const Axes& reduced, bool affine) {
        AxisList axes;
        for (std::int64_t axis = 0; axis < x().rank(); ++axis) {
            if (x().size(axis) == 1) continue;
            Axis a;
            a.size = x().size(axis);
            a.reduced = std::ranges::find(reduced, axis) != reduced.end();
            for (std::size_t o = 0; o < operands; ++o) {
                if (views_[o] && views_[o]->size(axis) != 1) a.strides[o] = views_[o]->stride(axis);
            }
            axes.push_back(a);
        }
        std::ranges::stable_sort(
            axes, [](const Axis& a, const Axis& b) { return std::abs(a.strides[of_x]) > std::abs(b.strides[of_x]); });
        if (grad_ && !affine) {
            std::int64_t next = 1;
            for (auto a = axes.rbegin(); a != axes.rend(); ++a) {
                a->strides[of_bias] = a->reduced ? 0 : next;
                if (!a->reduced) next *= a->size;
            }
        }
        all_ = joined(axes, false);
        kept_.clear();
        reduced_.clear();
        const AxisList parts = joined(axes, true);
        for (const Axis& a : parts) (a.reduced ? reduced_ : kept_).push_back(a);
        rows_ = parts.empty() || parts.back().reduced || small_;
        if (all_.empty()) all_.emplace_back();
        if (reduced_.empty()) reduced_.emplace_back();
        if (kept_.empty()) kept_.emplace_back();
    }

    /// How many neighbours along the innermost axis can be read and written at once.
    std::int64_t neighbours(const AxisList& walked, const AxisList& others, bool writes) const {
        const std::int64_t n = 16 / size_of(x().dtype);
        const Axis& inner = walked.back();
        if (small_ || inner.size % n != 0) return 1;
        for (const Operand o : {of_x, of_g, of_y}) {
            if (o == of_y && !writes) continue;
            if (inner.strides[o] != 1 || reinterpret_cast<std::uintptr_t>(data(o)) % 16 != 0) return 1;
            for (const AxisList* list : {&walked, &others}) {
                for (const Axis& a : *list) {
                    if (&a != &inner && a.strides[o] % n != 0) return 1;
                }
            }
        }
        return n;
    }
    /// The same axes in loads of n neighbours.
    static AxisList in_loads(AxisList axes, std::int64_t n) {
        axes.back().size /= n;
        for (std::int64_t& s : axes.back().strides) s *= n;
        return axes;
    }

    /// The most threads that share a group: where there is little to do, those that can shuffle.
    int most_lanes() const { return bits(small_ ? subgroup_ : threads); }
    bool local_stage(int shift) const { return std::int64_t{1} << shift > subgroup_; }
    gpu::Launch start(const char* entry, std::int64_t n, int shift) const {
        gpu::Launch l = launch(call_, kernels::norm_norm, entry);
        l.constant("X", x().dtype)
            .constant("M", dtype(of_mean))
            .constant("V", dtype(of_variance))
            .constant("P", dtype(of_weight))
            .constant("Q", dtype(of_bias))
            .constant("W", wide_)
            .constant("GRAD", grad_)
            .constant("VEC", n)
            .constant("LOCAL_STAGE", local_stage(shift))
            .threads(threads);
        return l;
    }

    /// One launch: when there are enough groups to keep the device busy, or too little to do.
    bool fused() const {
        if (small_) return true;
        return rows_ && (product(kept_) >= units_ * 2 || product(reduced_) <= 4096);
    }
    void run_fused() const {
        const bool any = small_;
        const std::int64_t n = neighbours(reduced_, kept_, true), groups = product(kept_),
                           length = product(reduced_) / n;
        const int shift = std::min(bits((length + 3) / 4), most_lanes());
        const std::int64_t a_thread = (length + (std::int64_t{1} << shift) - 1) >> shift;
        const Layout7 kept = layout_of(kept_, any), along = layout_of(in_loads(reduced_, n), any);
        gpu::Launch l = start(grad_ ? "norm_backward" : "norm_forward", n, shift);
        l.constant("HOLD", any || a_thread > 4 ? 0 : 4).constant("KEPT", kept.rank()).constant("REDUCED", along.rank());
        l.buffer(x());
        if (grad_) l.buffer(*views_[of_g]);
        l.buffer(*views_[of_y]).buffer(data(of_mean)).buffer(data(of_variance)).buffer(data(of_weight));
        if (!grad_) l.buffer(data(of_bias));
        l.size(groups).size(length).size(reduced_.back().strides[of_weight]);
        if (!grad_) l.size(reduced_.back().strides[of_bias]);
        l.value(shift).value(flags()).number(a_.epsilon, wide_).layout(kept.sizes, kept.lists());
        l.layout(along.sizes, along.lists()).run((groups + (threads >> shift) - 1) / (threads >> shift));
    }

    struct Split {
        std::int64_t chunk = 1, chunks = 1;
    };
    /// Cuts `length` positions, of which a group of threads takes `step` at once, where `groups` leave units idle.
    Split split(std::int64_t length, std::int64_t groups, std::int64_t step) const {
        Split s{std::max<std::int64_t>(length, 1), 1};
        if (groups <= 0 || groups >= units_ * 4 || length < 16 * step) return s;
        const std::int64_t chunks = std::min(units_ * 8 / groups, length / (8 * step));
        if (chunks < 2) return s;
        s.chunk = ((length + chunks - 1) / chunks + step - 1) / step * step;
        s.chunks = (length + s.chunk - 1) / s.chunk;
        return s;
    }

    /// Sums over reduced_ for every group: into two views, or in pairs into `pairs`.
    void sum_up(int flags, const View& first, const View& second, const Ref<Storage>& pairs) const {
        const std::int64_t groups = product(kept_);
        std::int64_t chunks = 1;
        const Ref<Storage> states = rows_ ? sum_rows(flags, chunks) : sum_columns(flags, chunks);
        const int shift = std::min(bits((chunks + 1) / 2), most_lanes());
        const Layout7 kept = layout_of(kept_, small_);
        const Operand lies = grad_ ? of_bias : of_mean;
        const std::span<const std::int64_t> list[] = {kept.strides[lies]};
        gpu::Launch l = launch(call_, kernels::norm_norm, "norm_chunks");
        l.constant("X", x().dtype)
            .constant("M", pairs ? wide_ : first.dtype)
            .constant("V", pairs ? wide_ : second.dtype)
            .constant("P", x().dtype)
            .constant("Q", x().dtype)
            .constant("W", wide_)
            .constant("GRAD", grad_)
            .constant("VEC", 1)
            .constant("HOLD", 0)
            .constant("KEPT", kept.rank())
            .constant("LOCAL_STAGE", local_stage(shift))
            .threads(threads);
        l.buffer(states).buffer(pairs ? pairs->data : first.data).buffer(pairs ? pairs->data : second.data);
        l.size(groups).size(chunks).value(shift).value(flags).value(pairs ? 1 : 0).layout(kept.sizes, list);
        l.run((groups + (threads >> shift) - 1) / (threads >> shift));
    }
    void operands_of_sums(gpu::Launch& l, const Ref<Storage>& states) const {
        l.buffer(x()).buffer(*views_[of_g]).buffer(data(of_mean)).buffer(data(of_variance)).buffer(data(of_weight));
        l.buffer(states);
    }
    Ref<Storage> sum_rows(int flags, std::int64_t& chunks) const {
        const bool any = small_;
        const std::int64_t n = neighbours(reduced_, kept_, false), groups = product(kept_),
                           length = product(reduced_) / n;
        const int shift = std::min(bits((length + 3) / 4), most_lanes());
        const std::int64_t a_group = threads >> shift, runs = (groups + a_group - 1) / a_group;
        const Split s = split(length, a_group == 1 ? runs : 0, threads);
        chunks = s.chunks;
        Ref<Storage> states = graph::scratch(call_, groups * chunks * state_bytes);
        const Layout7 kept = layout_of(kept_, any), along = layout_of(in_loads(reduced_, n), any);
        gpu::Launch l = start("norm_rows", n, shift);
        l.constant("HOLD", 0).constant("KEPT", kept.rank()).constant("REDUCED", along.rank());
        operands_of_sums(l, states);
        l.size(groups).size(length).size(s.chunk).size(s.chunks);
        for (const Operand o : {of_mean, of_variance, of_weight}) l.size(reduced_.back().strides[o]);
        l.value(shift).value(flags).number(a_.epsilon, wide_).layout(kept.sizes, kept.lists());
        l.layout(along.sizes, along.lists()).run({runs, s.chunks, 1});
        return states;
    }
    Ref<Storage> sum_columns(int flags, std::int64_t& chunks) const {
        AxisList outer = kept_;
        const Axis columns = outer.back();
        const std::int64_t n = neighbours(kept_, reduced_, false), width = columns.size / n, length = product(reduced_);
        outer.pop_back();
        const int shift = std::min(bits(width), 5);
        const std::int64_t blocks = (width + (std::int64_t{1} << shift) - 1) >> shift, runs = product(outer) * blocks;
        const Split s = split(length, runs, threads >> shift);
        chunks = s.chunks;
        Ref<Storage> states = graph::scratch(call_, product(kept_) * chunks * state_bytes);
        const Layout7 kept = layout_of(outer, false), along = layout_of(reduced_, false);
        gpu::Launch l = start("norm_columns", n, bits(threads));
        l.constant("HOLD", 0).constant("KEPT", kept.rank()).constant("REDUCED", along.rank());
        operands_of_sums(l, states);
        l.size(width).size(blocks).size(length).size(s.chunk).size(s.chunks);
        for (const Operand o : {of_x, of_g, of_mean, of_variance, of_weight}) l.size(columns.strides[o]);
        l.value(shift).value(flags).number(a_.epsilon, wide_).layout(kept.sizes, kept.lists());
        l.layout(along.sizes, along.lists()).run({runs, s.chunks, 1});
        return states;
    }

    void apply() {
        if (a_.given) divide({}, false);
        const std::int64_t n = neighbours(all_, {}, true), loads = count_ / n;
        const Layout7 all = layout_of(in_loads(all_, n), small_);
        gpu::Launch l = start("norm_apply", n, 0);
        l.constant("HOLD", 0).constant("RANK", all.rank());
        l.buffer(x()).buffer(*views_[of_y]).buffer(data(of_mean)).buffer(data(of_variance));
        l.buffer(data(of_weight)).buffer(data(of_bias)).size(loads);
        for (const Operand o : {of_mean, of_variance, of_weight, of_bias}) l.size(all_.back().strides[o]);
        l.value(flags()).number(a_.epsilon, wide_).layout(all.sizes, all.lists()).over(loads);
    }
    void apply_grad(const Ref<Storage>& sums) const {
        const std::int64_t n = neighbours(all_, {}, true), loads = count_ / n;
        const Layout7 all = layout_of(in_loads(all_, n), false);
        gpu::Launch l = start("norm_apply_grad", n, 0);
        l.constant("HOLD", 0).constant("RANK", all.rank());
        l.buffer(x()).buffer(*views_[of_g]).buffer(*views_[of_y]).buffer(data(of_mean)).buffer(data(of_variance));
        l.buffer(data(of_weight)).buffer(sums).size(loads);
        for (const Operand o : {of_mean, of_variance, of_weight, of_bias}) l.size(all_.back().strides[o]);
        l.value(flags()).number(a_.epsilon, wide_).number(static_cast<double>(product(reduced_)), wide_);
        l.layout(all.sizes, all.lists()).over(loads);
    }

    const graph::Call& call_;
    const NormAttributes& a_;
    bool grad_;
    const View* views_[operands] = {};
    DType wide_ = f32;
    std::int64_t units_ = 1, subgroup_ = 1, count_ = 0;
    bool small_ = false;  ///< one variant a dtype serves every layout
    AxisList all_, kept_, reduced_;
    bool rows_ = true;
};

}  // namespace

void gpu_normalize(const graph::Call& c) { Problem(c, false).forward(); }
void gpu_normalize_grad(const graph::Call& c) { Problem(c, true).backward(); }

}  // namespace ops
}  // namespace calor
