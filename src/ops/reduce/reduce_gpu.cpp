// Reductions on GPUs: which kernel, how many threads share a result, and in how many chunks few long results are split.
// All of it follows from sizes, strides and the device, so the same bits come out every time.
#include <algorithm>
#include <cmath>

#include "ops/gpu.h"
#include "ops/reduce/operations.h"
#include "ops/reduce/plan.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile reduce_reduce;
}

namespace ops {
namespace {

constexpr std::int64_t threads = 256;
constexpr std::int64_t most_state_bytes = 32;

/// Elements below which one kernel a dtype serves every layout: threads that can shuffle share a result, else one has
/// it.
std::int64_t small(const graph::Call& c) { return c.backend.gpu()->traits().subgroup > 1 ? 4096 : 1024; }

// As in reduce.kernel.
enum class Kind : std::uint8_t { sum, product, extreme, argument, logsumexp, moments };
struct Meaning {
    Kind kind = Kind::sum;
    int flip = 0, map = 0, finish = 0;
    double divisor = 1;
};

Meaning meaning_of(const ReduceAttributes& a, const Shape& shape) {
    const double count = reduced_count(shape, a.axes);
    switch (a.kind) {
        case Reduction::sum: return {};
        case Reduction::mean: return {.finish = 1, .divisor = count};
        case Reduction::prod: return {.kind = Kind::product};
        case Reduction::any:
        case Reduction::max: return {.kind = Kind::extreme};
        case Reduction::all:
        case Reduction::min: return {.kind = Kind::extreme, .flip = 1};
        case Reduction::argmax: return {.kind = Kind::argument};
        case Reduction::argmin: return {.kind = Kind::argument, .flip = 1};
        case Reduction::logsumexp: return {.kind = Kind::logsumexp};
        case Reduction::var:
        case Reduction::std:
            return {.kind = Kind::moments,
                    .finish = a.kind == Reduction::std ? 2 : 0,
                    .divisor = std::max(0.0, count - a.parameter)};
        case Reduction::norm: break;
    }
    if (std::isinf(a.parameter)) return {.kind = Kind::extreme, .flip = a.parameter < 0 ? 1 : 0, .map = 1};
    return a.parameter == 1 ? Meaning{.map = 1} : Meaning{.map = 2, .finish = 2};
}

/// Sums and products of integers wrap, so signs don't matter: fewer variants.
DType without_sign(DType t) { return t == i64 ? u64 : t == i32 ? u32 : t == i16 ? u16 : t == i8 ? u8 : t; }

struct Problem {
    const graph::Call& call;
    Meaning meaning;
    DType in = f32, out = f32, wide = f32;
    ReducePlan plan = {};
    std::int64_t results = 1, length = 1;
    std::int64_t neighbours = 1;  ///< that one load brings
    std::int64_t chunk = 1, chunks = 1;

    const void* source() const { return call.inputs[0].as<std::byte>() + plan.in * size_of(in); }
    void* target() const { return call.outputs[0].as<std::byte>() + plan.out * size_of(out); }
    std::int64_t units() const { return call.backend.gpu()->traits().units; }
    /// Loads that a thread has under way, as the kernel's UNROLLED.
    std::int64_t unrolled() const { return neighbours >= 8 ? 2 : 4; }
};

std::int64_t product(const std::vector<PlanAxis>& axes) {
    std::int64_t n = 1;
    for (const PlanAxis& a : axes) n *= a.size;
    return n;
}

Problem problem_of(const graph::Call& c) {
    const auto& a = c.attrs<ReduceAttributes>();
    const View &x = c.inputs[0], &y = c.outputs[0];
    Problem p{c, meaning_of(a, *x.shape)};
    const bool wraps = p.meaning.kind == Kind::sum || p.meaning.kind == Kind::product;
    p.in = wraps ? without_sign(x.dtype) : x.dtype;
    p.out = wraps ? without_sign(y.dtype) : y.dtype;
    p.wide = c.backend.gpu()->traits().f64 ? f64 : f32;
    p.plan = plan_reduction(x, a.axes, *y.strides, p.meaning.kind == Kind::argument);
    p.results = product(p.plan.kept);
    p.length = product(p.plan.reduced);
    return p;
}

/// Layouts of few different ranks, so that few variants are compiled: unit axes come in front.
std::int64_t padded(std::size_t rank) {
    for (const std::int64_t r : {1, 3, 8}) {
        if (static_cast<std::int64_t>(rank) <= r) return r;
    }
    return static_cast<std::int64_t>(rank);
}
struct Axes2 {
    Dims sizes;
    Strides in, out;
};
Axes2 layout_of(const std::vector<PlanAxis>& axes, std::int64_t rank) {
    Axes2 l{Dims(rank, 1), Strides(rank, 0), Strides(rank, 0)};
    const std::int64_t first = rank - std::ssize(axes);
    for (std::int64_t i = 0; i < std::ssize(axes); ++i) {
        const PlanAxis& a = axes[static_cast<std::size_t>(i)];
        l.sizes[first + i] = a.size;
        l.in[first + i] = a.in;
        l.out[first + i] = a.out;
    }
    return l;
}
std::span<const std::int64_t> span_of(const Dims& d) { return {d.begin(), d.end()}; }

/// Takes 16 bytes at a time along `axis`, the innermost one, where all addresses allow it.
void widen(Problem& p, PlanAxis& axis) {
    const std::int64_t n = 16 / size_of(p.in);
    if (axis.in != 1 || axis.size % n != 0 || reinterpret_cast<std::uintptr_t>(p.source()) % 16 != 0) return;
    for (const auto* axes : {&p.plan.kept, &p.plan.reduced}) {
        for (const PlanAxis& a : *axes) {
            if (&a != &axis && a.in % n != 0) return;
        }
    }
    p.neighbours = n;
    axis.size /= n;
}

int bits(std::int64_t lanes) {
    int shift = 0;
    while ((std::int64_t{1} << shift) < lanes) ++shift;
    return shift;
}

/// Splits `length` positions, of which a group takes `step` at once, where `groups` groups leave units idle.
void split(Problem& p, std::int64_t length, std::int64_t groups, std::int64_t step) {
    const std::int64_t wanted = p.units() * 8, least = step * p.unrolled() * 2;
    p.chunk = std::max<std::int64_t>(length, 1);
    p.chunks = 1;
    if (groups <= 0 || groups * 2 > wanted || length < 2 * least) return;
    const std::int64_t chunks = std::min(wanted / groups, length / least);
    if (chunks < 2) return;
    p.chunk = ((length + chunks - 1) / chunks + step - 1) / step * step;
    p.chunks = (length + p.chunk - 1) / p.chunk;
}

gpu::Launch start(const Problem& p, const char* entry, std::int64_t kept, std::int64_t reduced, int shift) {
    gpu::Launch l = launch(p.call, kernels::reduce_reduce, entry);
    l.constant("X", p.in)
        .constant("Y", p.out)
        .constant("W", p.wide)
        .constant("KIND", static_cast<int>(p.meaning.kind))
        .constant("VEC", p.neighbours)
        .constant("KEPT", kept)
        .constant("REDUCED", reduced)
        .constant("LOCAL_STAGE", std::int64_t{1} << shift > p.call.backend.gpu()->traits().subgroup)
        .threads(threads);
    return l;
}

/// The states of chunks become results.
void join_chunks(const Problem& p, const Ref<Storage>& states, const std::vector<PlanAxis>& kept) {
    const int shift = std::min(bits((p.chunks + 1) / 2), bits(threads));
    const Axes2 l = layout_of(kept, padded(kept.size()));
    start(p, "reduce_chunks", l.sizes.rank(), 1, shift)
        .buffer(states)
        .buffer(p.target())
        .size(p.results)
        .size(p.chunks)
        .value(shift)
        .value(p.meaning.flip)
        .value(p.meaning.finish)
        .number(p.meaning.divisor, p.wide)
        .layout(span_of(l.sizes), {span_of(l.out)})
        .run((p.results + (threads >> shift) - 1) / (threads >> shift));
}

Ref<Storage> states_of(const Problem& p) {
    return p.chunks > 1 ? graph::scratch(p.call, p.results * p.chunks * most_state_bytes) : Ref<Storage>();
}

void run_rows(Problem& p, std::int64_t kept_rank, std::int64_t reduced_rank, bool tiled) {
    const std::int64_t length = p.length / p.neighbours;
    const int most = tiled ? bits(threads) : bits(p.call.backend.gpu()->traits().subgroup);
    const int shift = std::min(bits((length + 3) / 4), most);
    const std::int64_t a_group = threads >> shift, groups = (p.results + a_group - 1) / a_group;
    p.chunk = std::max<std::int64_t>(length, 1);
    if (tiled && a_group == 1) split(p, length, groups, threads);
    const Ref<Storage> states = states_of(p);
    const Axes2 kept = layout_of(p.plan.kept, kept_rank);
    Axes2 along = layout_of(p.plan.reduced, reduced_rank);
    along.in[reduced_rank - 1] *= p.neighbours;
    start(p, "reduce_rows", kept_rank, reduced_rank, shift)
        .buffer(p.source())
        .buffer(p.target())
        .buffer(states ? states->data : p.target())
        .size(p.results)
        .size(length)
        .size(p.chunk)
        .size(p.chunks)
        .value(shift)
        .value(p.meaning.flip)
        .value(p.meaning.map)
        .value(p.meaning.finish)
        .number(p.meaning.divisor, p.wide)
        .layout(span_of(kept.sizes), {span_of(kept.in), span_of(kept.out)})
        .layout(span_of(along.sizes), {span_of(along.in)})
        .run({groups, p.chunks, 1});
    if (p.chunks > 1) join_chunks(p, states, p.plan.kept);
}

void run_columns(Problem& p, const std::vector<PlanAxis>& all_kept) {
    const PlanAxis columns = p.plan.kept.back();
    std::vector<PlanAxis> outer = p.plan.kept;
    outer.pop_back();
    int shift = std::min(bits(columns.size), 5);
    while ((threads >> shift) > p.length && (std::int64_t{1} << shift) < columns.size && shift < bits(threads)) ++shift;
    const std::int64_t width = std::int64_t{1} << shift, blocks = (columns.size + width - 1) / width;
    const std::int64_t groups = product(outer) * blocks;
    split(p, p.length, groups, threads >> shift);
    const Ref<Storage> states = states_of(p);
    const Axes2 kept = layout_of(outer, padded(outer.size())),
                along = layout_of(p.plan.reduced, padded(p.plan.reduced.size()));
    start(p, "reduce_columns", kept.sizes.rank(), along.sizes.rank(), bits(threads))
        .buffer(p.source())
        .buffer(p.target())
        .buffer(states ? states->data : p.target())
        .size(columns.size)
        .size(blocks)
        .size(columns.in)
        .size(columns.out)
        .size(p.length)
        .size(p.chunk)
        .size(p.chunks)
        .value(shift)
        .value(p.meaning.flip)
        .value(p.meaning.map)
        .value(p.meaning.finish)
        .number(p.meaning.divisor, p.wide)
        .layout(span_of(kept.sizes), {span_of(kept.in), span_of(kept.out)})
        .layout(span_of(along.sizes), {span_of(along.in)})
        .run({groups, p.chunks, 1});
    if (p.chunks > 1) join_chunks(p, states, all_kept);
}

void run_tiled(const graph::Call& c) {
    Problem p = problem_of(c);
    if (p.results == 0) return;
    const std::vector<PlanAxis> kept = p.plan.kept;
    widen(p, p.plan.rows ? p.plan.reduced.back() : p.plan.kept.back());
    if (!p.plan.rows) return run_columns(p, kept);
    run_rows(p, padded(p.plan.kept.size()), padded(p.plan.reduced.size()), true);
}

/// One variant a dtype for every layout.
void run_any(const graph::Call& c) {
    Problem p = problem_of(c);
    if (p.results == 0) return;
    const auto rank = [](std::size_t n) { return std::max<std::int64_t>(8, static_cast<std::int64_t>(n)); };
    run_rows(p, rank(p.plan.kept.size()), rank(p.plan.reduced.size()), false);
}

const graph::Implementation gpu_list[] = {
    {.name = "tiles",
     .why_not =
         [](const graph::Call& c) {
             return c.inputs[0].count() < small(c) ? "small: one kernel serves every layout" : nullptr;
         },
     .run = run_tiled},
    {.name = "reference", .run = run_any}};

}  // namespace

std::span<const graph::Implementation> reduction_on_gpu() { return gpu_list; }

}  // namespace ops
}  // namespace calor
