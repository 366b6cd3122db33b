#include "ops/reduce/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/fail.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/reduce/plan.h"

namespace calor::ops {
namespace {

constexpr std::int64_t batch = 64;               // results that a row kernel makes in one call
constexpr std::int64_t thread_elements = 32768;  // a thread gets at least so many
constexpr std::int64_t chunk_elements = 65536;   // a chunk of a split reduction has at least so many
constexpr std::int64_t wanted_tasks = 128;       // reductions with fewer results are split
constexpr std::int64_t tile_elements = 4096;     // of a tile that is gathered or widened

std::int64_t product(const std::vector<PlanAxis>& axes, std::size_t first, std::size_t last) {
    std::int64_t n = 1;
    for (std::size_t a = first; a < last; ++a) n *= axes[a].size;
    return n;
}
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Brings strided elements into a dense tile, those of half types in f32 unless the kernel takes them as they are;
/// what is dense already is read in place.
class Loader {
public:
    Loader(DType dtype, bool half)
        : size_(size_of(dtype)), widen_(is_half(dtype) && !half ? cpu::find_convert(dtype, f32) : nullptr) {
        if (widen_) wide_.resize(tile_elements * 4);
    }
    bool direct(std::int64_t step) const { return step == 1 && !widen_; }
    std::int64_t element_size() const { return size_; }
    /// `rows` rows of n elements; `stride` becomes that of the result.
    const void* load(const std::byte* from, std::int64_t& stride, std::int64_t rows, std::int64_t step,
                     std::int64_t n) {
        if (direct(step)) return from;
        const bool dense = step == 1 && (stride == n || rows == 1);
        const void* packed = from;
        if (!dense) {
            packed_.resize(static_cast<std::size_t>(tile_elements * size_));
            for (std::int64_t r = 0; r < rows; ++r) {
                cpu::gather(packed_.data() + r * n * size_, from + r * stride * size_, step, size_, n);
            }
            packed = packed_.data();
        }
        stride = n;
        if (!widen_) return packed;
        widen_(&packed, wide_.data(), rows * n, nullptr);
        return wide_.data();
    }

private:
    std::int64_t size_;
    TileKernel widen_;
    std::vector<std::byte> packed_, wide_;
};

/// What all threads share.
struct Job {
    const std::byte* data;
    DType dtype;
    ReducePlan plan;
    const ReduceKernel& kernel;
    StateSink sink;
    std::int64_t pieces = 1;   ///< calls of the kernel a result (or a block of columns)
    std::int64_t per_row = 1;  ///< pieces a run of the innermost reduced axis
    std::int64_t fold = 1;     ///< narrow dense columns: rows taken as one wider row
};

/// Takes up pieces of one result, or of one block of columns.
class Worker {
public:
    explicit Worker(const Job& job) : job_(job), loader_(job.dtype, job.kernel.half) {}

    /// Pieces [first, last) of the result whose elements start at `base`.
    void absorb_row(std::int64_t base, std::int64_t first, std::int64_t last, std::byte* state) {
        const PlanAxis& run = job_.plan.reduced.back();
        const std::int64_t outer = std::ssize(job_.plan.reduced) - 1;
        PlanWalk walk(job_.plan.reduced.data(), outer, first / job_.per_row);
        for (std::int64_t piece = first; piece < last;) {
            if (job_.per_row == 1 && outer > 0) {  // whole runs: several in one call
                const PlanAxis& next = job_.plan.reduced[static_cast<std::size_t>(outer) - 1];
                std::int64_t rows = std::min(last - piece, walk.left()), stride = next.in;
                if (!loader_.direct(run.in)) rows = std::min(rows, std::max<std::int64_t>(1, tile_elements / run.size));
                const void* x = loader_.load(at(base + walk.in), stride, rows, run.in, run.size);
                job_.kernel.rows(x, stride, rows, run.size, state, 0, piece * run.size);
                walk.advance(rows);
                piece += rows;
                continue;
            }
            const std::int64_t begin = piece % job_.per_row * row_piece, n = std::min(row_piece, run.size - begin);
            std::int64_t stride = 0;
            const void* x = loader_.load(at(base + walk.in + begin * run.in), stride, 1, run.in, n);
            job_.kernel.rows(x, 0, 1, n, state, 0, piece / job_.per_row * run.size + begin);
            if (++piece % job_.per_row == 0) walk.advance(1);
        }
    }

    /// Pieces [first, last) of `width` columns from `column` on.
    void absorb_columns(std::int64_t base, std::int64_t width, std::int64_t first, std::int64_t last,
                        std::byte* states) {
        const PlanAxis& rows_axis = job_.plan.reduced.back();
        const PlanAxis& columns = job_.plan.kept.back();
        PlanWalk walk(job_.plan.reduced.data(), std::ssize(job_.plan.reduced) - 1, first / job_.per_row);
        for (std::int64_t piece = first; piece < last; ++piece) {
            const std::int64_t span = rows_piece * job_.fold;
            const std::int64_t begin = piece % job_.per_row * span, end = std::min(rows_axis.size, begin + span);
            std::int64_t row = begin;
            while (row < end) {
                std::int64_t rows = (end - row) / job_.fold, wide = width * job_.fold;
                if (rows == 0) {  // the last rows, fewer than a fold
                    rows = 1;
                    wide = width * (end - row);
                }
                if (!loader_.direct(columns.in)) rows = std::min(rows, std::max<std::int64_t>(1, tile_elements / wide));
                std::int64_t stride = job_.fold == 1 ? rows_axis.in : width * job_.fold;
                const void* x = loader_.load(at(base + walk.in + row * rows_axis.in), stride, rows, columns.in, wide);
                job_.kernel.columns(x, stride, rows, wide, states, piece / job_.per_row * rows_axis.size + row);
                row = wide < width * job_.fold ? end : row + rows * job_.fold;
            }
            if ((piece + 1) % job_.per_row == 0) walk.advance(1);
        }
        for (std::int64_t f = 1; f < job_.fold; ++f) {
            job_.kernel.merge(states, states + f * width * job_.kernel.state_bytes, width);
        }
    }

    /// Results [begin, end) of short rows, several a call.
    void short_rows(std::int64_t begin, std::int64_t end) {
        const PlanAxis& run = job_.plan.reduced.back();
        const auto& kept = job_.plan.kept;
        std::vector<std::byte> states(static_cast<std::size_t>(batch * job_.kernel.state_bytes));
        PlanWalk walk(kept.data(), std::ssize(kept), begin);
        for (std::int64_t i = begin; i < end;) {
            std::int64_t rows = std::min({batch, walk.left(), end - i}), stride = kept.empty() ? 0 : kept.back().in;
            if (!loader_.direct(run.in)) rows = std::min(rows, std::max<std::int64_t>(1, tile_elements / run.size));
            job_.kernel.init(states.data(), rows);
            const void* x = loader_.load(at(job_.plan.in + walk.in), stride, rows, run.in, run.size);
            job_.kernel.rows(x, stride, rows, run.size, states.data(), 1, 0);
            job_.sink(states.data(), rows, job_.plan.out + walk.out, kept.empty() ? 0 : kept.back().out);
            walk.advance(rows);
            i += rows;
        }
    }

private:
    const std::byte* at(std::int64_t offset) const { return job_.data + offset * loader_.element_size(); }

    const Job& job_;
    Loader loader_;
};

/// A task: one result (or block of columns), or one chunk of its pieces.
struct Tasks {
    std::int64_t results = 1;  ///< rows: results; columns: outer results times blocks
    std::int64_t blocks = 1;   ///< columns: blocks of columns
    std::int64_t chunks = 1;   ///< chunks of pieces a result
    std::int64_t states = 1;   ///< states that a task needs
};

void run_task(const Job& job, const Tasks& tasks, Worker& worker, std::int64_t task, std::byte* states, bool finish) {
    const auto& kept = job.plan.kept;
    const std::int64_t result = task / tasks.chunks, chunk = task % tasks.chunks;
    const std::int64_t first = job.pieces * chunk / tasks.chunks, last = job.pieces * (chunk + 1) / tasks.chunks;
    job.kernel.init(states, tasks.states);
    if (job.plan.rows) {
        const PlanWalk walk(kept.data(), std::ssize(kept), result);
        worker.absorb_row(job.plan.in + walk.in, first, last, states);
        if (finish) job.sink(states, 1, job.plan.out + walk.out, 0);
        return;
    }
    const PlanAxis& columns = kept.back();
    const PlanWalk walk(kept.data(), std::ssize(kept) - 1, result / tasks.blocks);
    const std::int64_t column = result % tasks.blocks * most_columns;
    const std::int64_t width = std::min(most_columns, columns.size - column);
    worker.absorb_columns(job.plan.in + walk.in + column * columns.in, width, first, last, states);
    if (finish) job.sink(states, width, job.plan.out + walk.out + column * columns.out, columns.out);
}

/// The chunks of each result are merged in order and handed on.
void merge_chunks(const Job& job, const Tasks& tasks, std::byte* states) {
    const std::int64_t bytes = tasks.states * job.kernel.state_bytes;
    const auto& kept = job.plan.kept;
    for (std::int64_t result = 0; result < tasks.results; ++result) {
        std::byte* first = states + result * tasks.chunks * bytes;
        std::int64_t width = 1, offset = job.plan.out, stride = 0;
        if (job.plan.rows) {
            offset += PlanWalk(kept.data(), std::ssize(kept), result).out;
        } else {
            const std::int64_t column = result % tasks.blocks * most_columns;
            width = std::min(most_columns, kept.back().size - column);
            stride = kept.back().out;
            offset += PlanWalk(kept.data(), std::ssize(kept) - 1, result / tasks.blocks).out + column * stride;
        }
        for (std::int64_t c = 1; c < tasks.chunks; ++c) job.kernel.merge(first, first + c * bytes, width);
        job.sink(first, width, offset, stride);
    }
}

Tasks divide(Job& job, bool ordered) {
    const ReducePlan& plan = job.plan;
    const PlanAxis& inner = plan.reduced.back();
    const std::int64_t outer = product(plan.reduced, 0, plan.reduced.size() - 1);
    Tasks tasks;
    std::int64_t elements = 0;
    if (plan.rows) {
        job.per_row = std::max<std::int64_t>(1, divide_up(inner.size, row_piece));
        tasks.results = product(plan.kept, 0, plan.kept.size());
        elements = outer * inner.size;
    } else {
        const PlanAxis& columns = plan.kept.back();
        const bool dense = columns.in == 1 && inner.in == columns.size;
        if (!ordered && dense && columns.size < 128 && inner.size >= 16)
            job.fold = std::min(256 / columns.size, inner.size);
        job.per_row = std::max<std::int64_t>(1, divide_up(inner.size, rows_piece * job.fold));
        tasks.blocks = std::max<std::int64_t>(1, divide_up(columns.size, most_columns));
        tasks.results = product(plan.kept, 0, plan.kept.size() - 1) * tasks.blocks;
        tasks.states = std::min(most_columns, columns.size) * job.fold;
        elements = outer * inner.size * std::min(most_columns, columns.size);
    }
    job.pieces = outer * job.per_row;
    if (tasks.results < wanted_tasks) {
        tasks.chunks = std::clamp<std::int64_t>(elements / chunk_elements, 1,
                                                divide_up(wanted_tasks, std::max<std::int64_t>(1, tasks.results)));
        tasks.chunks = std::clamp<std::int64_t>(job.pieces, 1, tasks.chunks);
    }
    return tasks;
}

/// Results of reductions over no elements: states as init() leaves them.
void reduce_nothing(const Job& job, const View& x, const Axes& axes, const Strides& out) {
    std::vector<PlanAxis> kept;
    std::int64_t count = 1;
    for (std::int64_t a = 0; a < x.rank(); ++a) {
        if (std::ranges::find(axes, a) != axes.end()) continue;
        kept.push_back({x.size(a), 0, out[a]});
        count *= x.size(a);
    }
    std::vector<std::byte> state(static_cast<std::size_t>(job.kernel.state_bytes));
    job.kernel.init(state.data(), 1);
    if (count == 0) return;
    PlanWalk walk(kept.data(), std::ssize(kept), 0);
    for (std::int64_t i = 0; i < count; ++i, walk.advance(1)) job.sink(state.data(), 1, walk.out, 0);
}

}  // namespace

void reduce(const View& x, const Axes& axes, const Strides& out, const ReduceKernel& kernel, bool ordered,
            StateSink sink) {
    Job job{x.as<const std::byte>(), x.dtype, {}, kernel, sink};
    if (x.count() == 0) return reduce_nothing(job, x, axes, out);
    job.plan = plan_reduction(x, axes, out, ordered);
    const Tasks tasks = divide(job, ordered);
    const std::int64_t count = tasks.results * tasks.chunks;
    const std::int64_t grain =
        std::max<std::int64_t>(1, thread_elements / std::max<std::int64_t>(1, x.count() / count));
    if (tasks.chunks == 1 && job.plan.rows && job.pieces == 1) {
        cpu::parallel_for(count, grain,
                          [&](std::int64_t begin, std::int64_t end) { Worker(job).short_rows(begin, end); });
        return;
    }
    const std::int64_t bytes = tasks.states * kernel.state_bytes;
    if (tasks.chunks == 1) {
        cpu::parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::byte> states(static_cast<std::size_t>(bytes));
            Worker worker(job);
            for (std::int64_t t = begin; t < end; ++t) run_task(job, tasks, worker, t, states.data(), true);
        });
        return;
    }
    std::vector<std::byte> states(static_cast<std::size_t>(bytes * count));
    cpu::parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        Worker worker(job);
        for (std::int64_t t = begin; t < end; ++t) run_task(job, tasks, worker, t, states.data() + t * bytes, false);
    });
    merge_chunks(job, tasks, states.data());
}

void reduce_into(const View& x, const View& y, const ReduceAttributes& attributes) {
    const DType wide = compute_type(y.dtype);
    const ReduceKernel* kernel = find_reduce_kernel(attributes.kind, x.dtype, attributes.parameter);
    if (!kernel) fail_internal("a reduction met a dtype that it does not take");
    const bool ordered = attributes.kind == Reduction::argmax || attributes.kind == Reduction::argmin;
    const TileKernel narrow = wide == y.dtype ? nullptr : cpu::find_convert(wide, y.dtype);
    const std::int64_t size = size_of(y.dtype);
    double count = 1;
    for (const std::int64_t a : attributes.axes) count *= static_cast<double>(x.size(a));
    reduce(x, attributes.axes, *y.strides, *kernel, ordered,
           [&](const void* states, std::int64_t n, std::int64_t offset, std::int64_t stride) {
               alignas(64) std::byte results[batch * 8], stored[batch * 2];
               for (std::int64_t i = 0; i < n; i += batch) {
                   const std::int64_t some = std::min(batch, n - i);
                   kernel->finish(static_cast<const std::byte*>(states) + i * kernel->state_bytes, some, results, count,
                                  attributes.parameter);
                   const void* from = results;
                   if (narrow) {
                       narrow(&from, stored, some, nullptr);
                       from = stored;
                   }
                   auto* to = y.as<std::byte>() + (offset + i * stride) * size;
                   if (stride == 1) {
                       std::memcpy(to, from, static_cast<std::size_t>(some * size));
                   } else {
                       cpu::scatter(to, stride, from, size, some);
                   }
               }
           });
}

}  // namespace calor::ops
