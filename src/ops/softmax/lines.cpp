#include "ops/softmax/lines.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::ops {
namespace {

constexpr std::int64_t most_operands = 3;
constexpr std::int64_t thread_elements = 8192;   // a thread gets at least so many
constexpr std::int64_t tile_bytes = 128 * 1024;  // of a tile of columns, all operands together

struct Axis {
    std::int64_t size = 1;
    std::int64_t strides[most_operands] = {};
};

/// How the lines lie: the axis, and all others merged, outermost first.
struct Plan {
    std::int64_t operands = 0;  ///< the output is the last
    Axis line;
    std::vector<Axis> others;
    bool columns = false;     ///< others.back() is walked in tiles
    std::int64_t width = 1;   ///< of a tile
    std::int64_t blocks = 1;  ///< tiles along others.back()
    std::int64_t units = 1;   ///< lines, or tiles of columns
};

Plan make_plan(std::span<const View> views, std::int64_t axis, std::int64_t size) {
    Plan p;
    p.operands = std::ssize(views);
    const View& out = views.back();
    const auto axis_of = [&](std::int64_t a) {
        Axis r;
        r.size = out.size(a);
        for (std::int64_t o = 0; o < p.operands; ++o) r.strides[o] = views[static_cast<std::size_t>(o)].stride(a);
        return r;
    };
    std::vector<Axis> axes;
    for (std::int64_t a = 0; a < out.rank(); ++a) {
        if (a == axis) {
            p.line = axis_of(a);
        } else if (out.size(a) != 1) {
            axes.push_back(axis_of(a));
        }
    }
    const std::int64_t last = p.operands - 1;
    std::ranges::stable_sort(axes, [&](const Axis& a, const Axis& b) { return a.strides[last] > b.strides[last]; });
    for (const Axis& a : axes) {
        bool merges = !p.others.empty();
        for (std::int64_t o = 0; o < p.operands && merges; ++o)
            merges = p.others.back().strides[o] == a.strides[o] * a.size;
        if (merges) {
            const std::int64_t outer = p.others.back().size;
            p.others.back() = a;
            p.others.back().size *= outer;
        } else {
            p.others.push_back(a);
        }
    }
    if (p.line.size == 1) std::ranges::fill(p.line.strides, 1);
    p.columns = p.line.strides[last] != 1 && !p.others.empty() && p.others.back().strides[last] == 1 &&
                p.others.back().size >= 8;
    for (const Axis& a : p.others) p.units *= a.size;
    if (p.columns) {
        const std::int64_t inner = p.others.back().size;
        const std::int64_t fitting = tile_bytes / (p.operands * size * p.line.size) / 16 * 16;
        p.width = std::clamp<std::int64_t>(fitting, 16, most_lines);
        p.blocks = (inner + p.width - 1) / p.width;
        p.units = p.units / inner * p.blocks;
    }
    return p;
}

/// The buffers of a thread: one tile an operand.
class Worker {
public:
    Worker(const Plan& plan, std::span<const View> views, const LineKernels& kernels)
        : plan_(plan), views_(views), kernels_(kernels) {
        size_ = size_of(views[0].dtype);
        if (!plan.columns || !is_half(views[0].dtype)) return;
        widen_ = cpu::find_convert(views[0].dtype, f32);
        narrow_ = cpu::find_convert(f32, views[0].dtype);
    }

    void run(std::int64_t unit) {
        std::int64_t rest = plan_.columns ? unit / plan_.blocks : unit;
        std::int64_t offset[most_operands] = {}, width = 1;
        auto outer = std::ssize(plan_.others) - (plan_.columns ? 1 : 0);
        for (std::int64_t a = outer - 1; a >= 0; --a) {
            const Axis& axis = plan_.others[static_cast<std::size_t>(a)];
            for (std::int64_t o = 0; o < plan_.operands; ++o) offset[o] += rest % axis.size * axis.strides[o];
            rest /= axis.size;
        }
        if (plan_.columns) {
            const Axis& inner = plan_.others.back();
            const std::int64_t begin = unit % plan_.blocks * plan_.width;
            width = std::min(plan_.width, inner.size - begin);
            for (std::int64_t o = 0; o < plan_.operands; ++o) offset[o] += begin * inner.strides[o];
        }
        const void* in[most_operands];
        std::int64_t in_strides[most_operands];
        for (std::int64_t o = 0; o + 1 < plan_.operands; ++o) in[o] = load(o, offset[o], width, in_strides[o]);
        store(plan_.operands - 1, offset[plan_.operands - 1], width, in, in_strides);
    }

private:
    std::int64_t step(std::int64_t o) const {
        return plan_.columns ? plan_.others.back().strides[o] : plan_.line.strides[o];
    }
    bool direct(std::int64_t o) const { return !widen_ && step(o) == 1; }
    std::byte* at(std::int64_t o, std::int64_t offset) const {
        return views_[static_cast<std::size_t>(o)].as<std::byte>() + offset * size_;
    }
    /// Rows of a tile: one line, or `line.size` runs of `width`.
    std::int64_t runs() const { return plan_.columns ? plan_.line.size : 1; }
    std::int64_t run_length(std::int64_t width) const { return plan_.columns ? width : plan_.line.size; }

    const void* load(std::int64_t o, std::int64_t offset, std::int64_t width, std::int64_t& stride) {
        stride = plan_.line.strides[o];
        if (direct(o)) return at(o, offset);
        const std::int64_t n = run_length(width), count = runs() * n, line = plan_.line.strides[o];
        stride = n;
        std::byte* packed = step(o) == 1 ? nullptr : buffer(packed_[o], count * size_);
        for (std::int64_t k = 0; packed && k < runs(); ++k) {
            cpu::gather(packed + k * n * size_, at(o, offset + k * line), step(o), size_, n);
        }
        if (!widen_) return packed;
        std::byte* wide = buffer(wide_[o], count * 4);
        for (std::int64_t k = 0; k < runs(); ++k) {
            const void* from = packed ? packed + k * n * size_ : at(o, offset + k * line);
            widen_(&from, wide + k * n * 4, n, nullptr);
        }
        return wide;
    }

    void store(std::int64_t o, std::int64_t offset, std::int64_t width, const void* const* in,
               const std::int64_t* in_strides) {
        const std::int64_t n = run_length(width), count = runs() * n, size = widen_ ? 4 : size_;
        if (direct(o)) return compute(in, in_strides, at(o, offset), plan_.line.strides[o], width);
        std::byte* result = buffer(wide_[o], count * size);
        compute(in, in_strides, result, n, width);
        for (std::int64_t k = 0; k < runs(); ++k) {
            std::byte* to = at(o, offset + k * plan_.line.strides[o]);
            const void* from = result + k * n * size;
            if (narrow_) {
                std::byte* narrow = step(o) == 1 ? to : buffer(packed_[o], n * size_);
                narrow_(&from, narrow, n, nullptr);
                from = narrow;
            }
            if (from != to) cpu::scatter(to, step(o), from, size_, n);
        }
    }

    void compute(const void* const* in, const std::int64_t* in_strides, void* out, std::int64_t out_stride,
                 std::int64_t width) {
        if (plan_.columns) {
            kernels_.columns(in, in_strides, out, out_stride, plan_.line.size, width);
        } else {
            kernels_.row(in, out, plan_.line.size,
                         kernels_.works ? buffer(work_, (plan_.line.size + 64) * 8) : nullptr);
        }
    }

    static std::byte* buffer(std::vector<std::byte>& memory, std::int64_t bytes) {
        if (std::ssize(memory) < bytes) memory.resize(static_cast<std::size_t>(bytes));
        return memory.data();
    }

    const Plan& plan_;
    std::span<const View> views_;
    const LineKernels& kernels_;
    std::int64_t size_ = 4;
    TileKernel widen_ = nullptr, narrow_ = nullptr;  ///< columns of half types
    std::vector<std::byte> packed_[most_operands], wide_[most_operands], work_;
};

}  // namespace

void run_lines(std::span<const View> inputs, const View& output, std::int64_t axis, const LineKernels& kernels) {
    if (output.count() == 0) return;
    std::vector<View> views(inputs.begin(), inputs.end());
    views.push_back(output);
    const Plan plan = make_plan(views, axis, size_of(compute_type(output.dtype)));
    const std::int64_t grain = std::max<std::int64_t>(1, thread_elements / (plan.line.size * plan.width));
    cpu::parallel_for(plan.units, grain, [&](std::int64_t begin, std::int64_t end) {
        Worker worker(plan, views, kernels);
        for (std::int64_t u = begin; u < end; ++u) worker.run(u);
    });
}

}  // namespace calor::ops
