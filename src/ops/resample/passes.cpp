// The passes of a plan over its tiles. Between passes a tile's numbers lie densely in one of two buffers, in f32 or f64
// (u8 in fixed point), so f16 and bf16 round once, at the end.
#include <algorithm>
#include <cstring>

#include "device/cpu/parallel.h"
#include "device/cpu/scratch.h"
#include "device/cpu/tile_copy.h"
#include "ops/resample/cpu/pass_kernels.h"
#include "ops/resample/plan.h"

namespace calor::ops::resample {
namespace {

/// A box of elements: what a pass reads or writes.
struct Box {
    char* data = nullptr;
    DType dtype = f32;
    Dims strides;
};

Dims dense_strides(const Dims& sizes) { return contiguous_strides(sizes); }

class Worker {
public:
    Worker(const graph::Call& call, const Plan& plan)
        : plan_(plan),
          x_(call.inputs[0]),
          y_(call.outputs[0]),
          fixed_(call.attrs<Attributes>().fixed_point),
          middle_(fixed_            ? u8
                  : x_.dtype == f64 ? f64
                                    : f32),
          rank_(std::ssize(plan.axes)) {
        const std::int64_t half = (plan.scratch * size_of(middle_) + 127) / 64 * 64;
        const std::int64_t stage = (plan.staging * size_of(x_.dtype) + 127) / 64 * 64;
        std::int64_t columns = 0;
        for (const std::size_t p : plan.passes) {
            for (std::int64_t run = 1; run < 8; ++run) {
                if (plan.axes[p].table) columns = std::max(columns, column_scratch(*plan.axes[p].table, run));
                if (p + 1 == plan.axes.size()) break;
            }
        }
        memory_ = cpu::Scratch(2 * half + stage + columns);
        buffers_[0] = memory_.bytes();
        buffers_[1] = buffers_[0] + half;
        stage_ = buffers_[1] + half;
        columns_ = stage_ + stage;
    }

    void item(std::int64_t number) {
        Dims tile(rank_, 0);
        sizes_ = Dims(rank_, 0);
        Box in{static_cast<char*>(x_.data), x_.dtype, Dims(rank_, 0)}, out{static_cast<char*>(y_.data), y_.dtype, {}};
        out.strides = in.strides;
        low_ = Dims(rank_, 0);
        for (std::int64_t a = rank_ - 1; a >= 0; --a) {
            const PlanAxis& axis = axis_of(a);
            tile[a] = number % axis.tiles();
            number /= axis.tiles();
            const auto [low, high] = axis.inputs(tile[a]);
            low_[a] = low;
            sizes_[a] = high - low;
            in.strides[a] = axis.in_step;
            out.strides[a] = axis.out_step;
            in.data += low * axis.in_step * size_of(in.dtype);
            out.data += tile[a] * axis.tile * axis.out_step * size_of(out.dtype);
        }
        if (plan_.staged) in = staged(in);
        for (std::size_t p = 0; p < plan_.passes.size(); ++p) {
            const auto a = static_cast<std::int64_t>(plan_.passes[p]);
            const bool last = p + 1 == plan_.passes.size();
            Dims after = sizes_;
            const std::int64_t begin = tile[a] * axis_of(a).tile;
            after[a] = std::min(axis_of(a).out, begin + axis_of(a).tile) - begin;
            const Box to = last ? out : Box{buffers_[p % 2], middle_, dense_strides(after)};
            run_pass(a,
                     {axis_of(a).table, begin, begin + after[a], low_[a], low_[a] + sizes_[a], last ? plan_.divisor : 1,
                      !axis_of(a).table->divisors.empty()},
                     in, to);
            sizes_ = after;
            in = to;
        }
    }

private:
    const PlanAxis& axis_of(std::int64_t a) const { return plan_.axes[static_cast<std::size_t>(a)]; }

    /// The tile's inputs, side by side.
    Box staged(const Box& in) {
        Box to{stage_, in.dtype, dense_strides(sizes_)};
        const std::int64_t size = size_of(in.dtype), n = sizes_[rank_ - 1];
        each_row(rank_ - 1, in, to,
                 [&](const char* from, char* into) { cpu::gather(into, from, in.strides[rank_ - 1], size, n); });
        return to;
    }

    /// Calls body(in, out) for every position along the first `count` axes but `skipped`.
    template <class F>
    void each_row(std::int64_t count, const Box& in, const Box& out, const F& body, std::int64_t skipped = -1) const {
        Dims index(rank_, 0);
        for (std::int64_t a = 0; a < count; ++a) {
            if (sizes_[a] == 0 && a != skipped) return;
        }
        const char* from = in.data;
        char* to = out.data;
        const std::int64_t in_size = size_of(in.dtype), out_size = size_of(out.dtype);
        for (;;) {
            body(from, to);
            std::int64_t a = count - 1;
            for (; a >= 0; --a) {
                if (a == skipped) continue;
                from += in.strides[a] * in_size;
                to += out.strides[a] * out_size;
                if (++index[a] < sizes_[a]) break;
                from -= in.strides[a] * in_size * sizes_[a];
                to -= out.strides[a] * out_size * sizes_[a];
                index[a] = 0;
            }
            if (a < 0) return;
        }
    }

    void run_pass(std::int64_t a, const Pass& pass, const Box& in, const Box& out) {
        const PassKernels kernels = find_pass_kernels(in.dtype, out.dtype, fixed_);
        std::int64_t run = 1, axis = rank_ - 1;  // elements behind axis a that lie side by side in both
        for (; axis > a && in.strides[axis] == run && out.strides[axis] == run; --axis) run *= sizes_[axis];
        if (run == 0) return;
        if (axis == a && run < 8 && in.strides[a] == run && out.strides[a] == run) {
            const void* rows_in[rows_at_once];
            void* rows_out[rows_at_once];
            std::int64_t count = 0;
            each_row(a, in, out, [&](const char* from, char* to) {
                rows_in[count] = from;
                rows_out[count++] = to;
                if (count < rows_at_once) return;
                kernels.columns(pass, rows_in, rows_out, count, run, columns_);
                count = 0;
            });
            if (count > 0) kernels.columns(pass, rows_in, rows_out, count, run, columns_);
            return;
        }
        each_row(
            axis + 1, in, out,
            [&](const char* from, char* to) { kernels.rows(pass, from, in.strides[a], to, out.strides[a], run); }, a);
    }

    const Plan& plan_;
    const View &x_, &y_;
    bool fixed_;
    DType middle_;
    std::int64_t rank_;
    Dims sizes_, low_;  ///< of the tile as it is now; the first input along each axis
    cpu::Scratch memory_;
    char* buffers_[2] = {};
    char* stage_ = nullptr;
    char* columns_ = nullptr;
};

}  // namespace

void run_passes(const graph::Call& call) {
    if (call.outputs[0].count() == 0) return;
    const Plan plan(call, call.inputs[0].dtype == f64 ? 8 : 4);
    cpu::parallel_for(plan.items(), 1, [&](std::int64_t begin, std::int64_t end) {
        Worker worker(call, plan);
        for (std::int64_t i = begin; i < end; ++i) worker.item(i);
    });
}

}  // namespace calor::ops::resample
