// normalize on the CPU. Many small groups: each is read twice while it is in the cache. Else a pass for the statistics
// of all groups and one over the elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/norm/worker.h"
#include "ops/reduce/reduce.h"

namespace calor::ops {
namespace {

template <class T> class Forward {
public:
    explicit Forward(const graph::Call& c)
        : call_(c),
          a_(c.attrs<NormAttributes>()),
          y_(c.outputs[0]),
          x_(in_layout_of(c.inputs[0], y_, c, memory_)),
          g_(norm_geometry(y_, a_)),
          dtype_(kernel_dtype(y_.dtype, g_)),
          kernels_(find_norm_kernels(dtype_)),
          statistics_(*find_reduce_kernel(a_.centred ? Reduction::var : Reduction::norm, dtype_, a_.centred ? 0 : 2)) {
        const Strides affine = affine_strides(y_, a_.affine);
        const std::size_t weight_at = a_.given ? 3 : 1, bias_at = weight_at + (a_.weight ? 1 : 0);
        if (a_.weight) weight_ = dense_array<T>(c.inputs[weight_at], affine);
        if (a_.bias) bias_ = dense_array<T>(c.inputs[bias_at], affine);
        if (weight_.empty()) weight_.assign(bias_.empty() ? 1 : bias_.size(), T(1));
        if (bias_.empty()) bias_.assign(weight_.size(), T(0));
        if (along_rows()) {
            weight_ = in_pairs(weight_, kernels_.evens);
            bias_ = in_pairs(bias_, kernels_.evens);
        }
        mean_.resize(static_cast<std::size_t>(g_.groups));
        scale_.resize(static_cast<std::size_t>(g_.groups));
    }

    void run() {
        const std::int64_t elements = g_.elements_per_block();
        if (a_.given) {
            take_given();
        } else if (g_.rows && g_.blocks >= norm_many_blocks && elements <= norm_cached_elements) {
            return run_by_group(elements);
        } else {
            measure_all();
        }
        const std::int64_t tile = std::max<std::int64_t>(1, elements / g_.pieces);
        const std::int64_t grain = std::max<std::int64_t>(1, norm_thread_elements / tile);
        cpu::parallel_for(g_.blocks * g_.pieces, grain, [&](std::int64_t begin, std::int64_t end) {
            Tiles tiles(*this);
            for (std::int64_t i = begin; i < end; ++i) apply(tiles, i / g_.pieces, i % g_.pieces);
        });
    }

private:
    bool along_rows() const { return g_.rows && g_.reduced.back().affine != 0; }

    /// What a thread owns.
    struct Tiles {
        explicit Tiles(const Forward& f) : x(f.x_, f.dtype_), y(f.y_, f.dtype_) {}
        TileMemory x, y;
        std::int64_t block = -1;
        double mean = 0, scale = 0;            ///< rows: of the block's group
        std::vector<T> means, scales, shifts;  ///< columns
    };

    /// Every group is read for its statistics and again, from the cache, for its elements.
    void run_by_group(std::int64_t elements) {
        const std::int64_t grain = std::max<std::int64_t>(1, norm_thread_elements / elements);
        cpu::parallel_for(g_.blocks, grain, [&](std::int64_t begin, std::int64_t end) {
            Tiles tiles(*this);
            for (std::int64_t b = begin; b < end; ++b) {
                measure(tiles, b);
                for (std::int64_t p = 0; p < g_.pieces; ++p) apply(tiles, b, p);
            }
        });
    }

    void measure_all() {
        const Strides groups = contiguous_strides(*call_.outputs[1].shape);
        if (g_.column_axes.empty()) {
            reduce(x_, a_.axes, groups, statistics_, false,
                   [&](const void* states, std::int64_t n, std::int64_t offset, std::int64_t stride) {
                       for (std::int64_t i = 0; i < n; ++i) {
                           keep(static_cast<const std::byte*>(states) + i * statistics_.state_bytes,
                                offset + i * stride);
                       }
                   });
            return;
        }
        // Columns of one group are measured apart, then merged in order.
        Shape shape = *x_.shape;
        Axes rows;
        for (const std::int64_t a : a_.axes) {
            if (std::ranges::find(g_.column_axes, a) != g_.column_axes.end()) continue;
            rows.push_back(a);
            shape[a] = 1;
        }
        const std::int64_t bytes = statistics_.state_bytes;
        std::vector<std::byte> states(static_cast<std::size_t>(numel(shape) * bytes)),
            merged(static_cast<std::size_t>(g_.groups * bytes));
        const Strides strides = contiguous_strides(shape);
        reduce(x_, rows, strides, statistics_, false,
               [&](const void* from, std::int64_t n, std::int64_t offset, std::int64_t stride) {
                   for (std::int64_t i = 0; i < n; ++i) {
                       std::memcpy(states.data() + (offset + i * stride) * bytes,
                                   static_cast<const std::byte*>(from) + i * bytes, static_cast<std::size_t>(bytes));
                   }
               });
        statistics_.init(merged.data(), g_.groups);
        Strides to = groups;
        for (const std::int64_t a : a_.axes) to[a] = 0;
        each_element({states.data(), u8, &shape, &strides}, to, [&](std::int64_t column, std::int64_t group) {
            statistics_.merge(merged.data() + group * bytes, states.data() + column * bytes, 1);
        });
        for (std::int64_t group = 0; group < g_.groups; ++group) keep(merged.data() + group * bytes, group);
    }

    void take_given() {
        const Strides groups = contiguous_strides(*call_.inputs[1].shape);
        mean_ = dense_array<T>(call_.inputs[1], groups);
        const std::vector<double> variance = dense_array<double>(call_.inputs[2], groups);
        std::ranges::transform(variance, scale_.begin(), [&](double v) { return 1 / std::sqrt(v + a_.epsilon); });
    }

    /// Keeps the statistics of a group, here and in the results.
    void keep(const void* state, std::int64_t group) {
        double mean = 0, variance = 0;
        const auto n = static_cast<double>(g_.group_size);
        if (a_.centred) {
            mean = static_cast<const Moments*>(state)->mean;
            variance = static_cast<const Moments*>(state)->squares / n;
        } else {
            variance = *static_cast<const double*>(state) / n;
        }
        const auto at = static_cast<std::size_t>(group);
        mean_[at] = call_.outputs[1].as<T>()[group] = static_cast<T>(mean);
        call_.outputs[2].as<T>()[group] = static_cast<T>(variance);
        scale_[at] = 1 / std::sqrt(variance + a_.epsilon);
    }

    /// Statistics of one group of rows.
    void measure(Tiles& tiles, std::int64_t block) {
        alignas(16) std::byte state[sizeof(Moments)];
        statistics_.init(state, 1);
        for (std::int64_t p = 0; p < g_.pieces; ++p) {
            const NormTile t = g_.tile(block, p);
            std::int64_t stride = 0;
            statistics_.rows(tiles.x.load(t, stride), 0, 1, t.width, state, 0, 0);
        }
        keep(state, g_.place(block, 0).group);
    }

    void apply(Tiles& tiles, std::int64_t block, std::int64_t piece) {
        if (tiles.block != block) enter(tiles, block);
        const NormTile t = g_.tile(block, piece);
        std::int64_t from_stride = 0, to_stride = 0;
        const void* from = tiles.x.load(t, from_stride);
        void* to = tiles.y.place(t, to_stride);
        if (!g_.rows) {
            kernels_.columns(from, from_stride, to, to_stride, t.rows, t.width, tiles.means.data(), tiles.scales.data(),
                             tiles.shifts.data());
        } else if (along_rows()) {
            kernels_.row(from, to, t.width, tiles.mean, tiles.scale, 0, weight_.data() + t.affine,
                         bias_.data() + t.affine);
        } else {
            const auto at = static_cast<std::size_t>(t.affine);
            kernels_.row(from, to, t.width, tiles.mean, tiles.scale * weight_[at], bias_[at], nullptr, nullptr);
        }
        tiles.y.store(t);
    }

    void enter(Tiles& tiles, std::int64_t block) {
        tiles.block = block;
        if (g_.rows) {
            const std::int64_t group = g_.place(block, 0).group;
            tiles.mean = static_cast<double>(mean_[static_cast<std::size_t>(group)]);
            tiles.scale = scale_[static_cast<std::size_t>(group)];
            return;
        }
        const std::int64_t columns = g_.columns_of(block), width = columns * g_.fold;
        for (auto* v : {&tiles.means, &tiles.scales, &tiles.shifts})
            v->assign(static_cast<std::size_t>(width + norm_padding), T(0));
        for (std::int64_t j = 0; j < width; ++j) {
            const auto place = g_.place(block, j % columns);
            const auto group = static_cast<std::size_t>(place.group), affine = static_cast<std::size_t>(place.affine);
            place_into(tiles.means, j, kernels_.evens, mean_[group]);
            place_into(tiles.scales, j, kernels_.evens, static_cast<T>(scale_[group] * weight_[affine]));
            place_into(tiles.shifts, j, kernels_.evens, bias_[affine]);
        }
    }

    const graph::Call& call_;
    const NormAttributes& a_;
    Ref<Storage> memory_;
    View y_, x_;
    NormGeometry g_;
    DType dtype_;  ///< of the kernels
    const NormKernels& kernels_;
    const ReduceKernel& statistics_;
    std::vector<T> weight_, bias_, mean_;  ///< mean_ and scale_: one a group
    std::vector<double> scale_;
};

}  // namespace

const char* why_not_fast(const graph::Call& c) {
    const auto& a = c.attrs<NormAttributes>();
    if (c.outputs[0].count() == 0) return nullptr;
    const NormGeometry g = norm_geometry(c.outputs[0], a);
    return g.rows || g.uniform ? nullptr : "weights vary along groups whose elements are not neighbours";
}

void fast_normalize(const graph::Call& c) {
    if (c.outputs[0].count() == 0) {  // groups of nothing have statistics of 0
        for (std::size_t i = 1; i < c.outputs.size(); ++i) {
            const View& v = c.outputs[i];
            if (v.count() > 0) std::memset(v.data, 0, static_cast<std::size_t>(v.count() * size_of(v.dtype)));
        }
        return;
    }
    if (c.outputs[0].dtype == f64) return Forward<double>(c).run();
    Forward<float>(c).run();
}

}  // namespace calor::ops
