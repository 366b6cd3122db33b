// normalize_grad on the CPU. For each group: s = sum(c), t = sum(c (x - mean)) with c = g weight; then
//   gx = r c - r s / n - (x - mean) r^3 t / n.
// Where weight and bias are the same throughout a group their gradients follow from s and t; else rows add them up on
// the way.
#include <array>
#include <cmath>
#include <cstring>

#include "ops/norm/worker.h"

namespace calor::ops {
namespace {

constexpr std::int64_t flush_groups = 64;       // groups whose terms of weight gradients are added in the compute dtype
constexpr std::int64_t chunk_elements = 65536;  // a chunk of a split block has at least so many
constexpr std::int64_t wanted_tasks = 64;

template <class T> class Backward {
public:
    explicit Backward(const graph::Call& c)
        : call_(c),
          a_(c.attrs<NormAttributes>()),
          gx_(c.outputs[0]),
          grad_(in_layout_of(c.inputs[0], gx_, c, grad_memory_)),
          x_(in_layout_of(c.inputs[1], gx_, c, x_memory_)),
          g_(norm_geometry(gx_, a_)),
          dtype_(kernel_dtype(gx_.dtype, g_)),
          kernels_(find_norm_kernels(dtype_)),
          affine_strides_(affine_strides(gx_, a_.affine)) {
        const Strides groups = contiguous_strides(*c.inputs[2].shape);
        mean_ = dense_array<T>(c.inputs[2], groups);
        for (const double v : dense_array<double>(c.inputs[3], groups)) scale_.push_back(1 / std::sqrt(v + a_.epsilon));
        affine_count_ = static_cast<std::size_t>(a_.affine.empty() ? 1 : numel(a_.affine));
        weight_ = a_.weight ? dense_array<T>(c.inputs[4], affine_strides_) : std::vector<T>(affine_count_, T(1));
        if (along_rows()) weight_ = in_pairs(weight_, kernels_.evens);
        weight_grad_.assign(affine_count_, 0.0);
        bias_grad_.assign(affine_count_, 0.0);
    }

    void run() {
        if (g_.uniform) {
            run_uniform();
        } else {
            run_varying();
        }
        if (a_.affine_gradients) write_affine();
    }

private:
    bool along_rows() const { return g_.rows && g_.reduced.back().affine != 0; }

    struct Sums {
        double c = 0, cx = 0;
    };
    struct Tiles {
        explicit Tiles(const Backward& b) : g(b.grad_, b.dtype_), x(b.x_, b.dtype_), gx(b.gx_, b.dtype_) {}
        TileMemory g, x, gx;
        std::int64_t block = -1;
        std::vector<T> means, a, b, c;  ///< columns
    };

    // Groups with one weight each.

    void run_uniform() {
        const std::int64_t elements = g_.elements_per_block();
        sums_.resize(static_cast<std::size_t>(g_.groups));
        if (g_.rows && g_.blocks >= norm_many_blocks && elements <= norm_cached_elements) {
            run_by_group(elements);
        } else {
            sum_in_chunks(elements);
            const std::int64_t tile = std::max<std::int64_t>(1, elements / g_.pieces);
            cpu::parallel_for(g_.blocks * g_.pieces, std::max<std::int64_t>(1, norm_thread_elements / tile),
                              [&](std::int64_t begin, std::int64_t end) {
                                  Tiles tiles(*this);
                                  for (std::int64_t i = begin; i < end; ++i) apply(tiles, i / g_.pieces, i % g_.pieces);
                              });
        }
    }

    /// Every group is read for its sums and again, from the cache, for its gradients.
    void run_by_group(std::int64_t elements) {
        std::vector<Sums> raw(static_cast<std::size_t>(g_.blocks));
        const std::int64_t grain = std::max<std::int64_t>(1, norm_thread_elements / elements);
        cpu::parallel_for(g_.blocks, grain, [&](std::int64_t begin, std::int64_t end) {
            Tiles tiles(*this);
            for (std::int64_t b = begin; b < end; ++b) {
                double sums[2] = {};
                add_row_sums(tiles, b, 0, g_.pieces, sums);
                const auto place = g_.place(b, 0);
                const double weight = weight_[static_cast<std::size_t>(place.affine)];
                raw[static_cast<std::size_t>(b)] = {sums[0], sums[1]};
                sums_[static_cast<std::size_t>(place.group)] = {sums[0] * weight, sums[1] * weight};
                for (std::int64_t p = 0; p < g_.pieces; ++p) apply(tiles, b, p);
            }
        });
        for (std::int64_t b = 0; b < g_.blocks; ++b) {
            const auto place = g_.place(b, 0);
            const Sums& s = raw[static_cast<std::size_t>(b)];
            weight_grad_[static_cast<std::size_t>(place.affine)] +=
                s.cx * scale_[static_cast<std::size_t>(place.group)];
            bias_grad_[static_cast<std::size_t>(place.affine)] += s.c;
        }
    }

    /// Adds the sums of g and g (x - mean) over a group, or over a column of one, to those of the group and its weight.
    void add_sums(const NormGeometry::Place& place, double g, double gx) {
        const auto group = static_cast<std::size_t>(place.group), affine = static_cast<std::size_t>(place.affine);
        sums_[group].c += g * weight_[affine];
        sums_[group].cx += gx * weight_[affine];
        weight_grad_[affine] += gx * scale_[group];
        bias_grad_[affine] += g;
    }

    /// sums_ of every group, from chunks of pieces that are merged in order.
    void sum_in_chunks(std::int64_t elements) {
        const std::int64_t wanted = (wanted_tasks + g_.blocks - 1) / g_.blocks;
        const std::int64_t chunks = std::min(
            g_.pieces, std::clamp<std::int64_t>(elements / chunk_elements, 1, std::max<std::int64_t>(1, wanted)));
        const std::int64_t width = g_.rows ? 1 : norm_columns;  // states a task
        std::vector<double> states(static_cast<std::size_t>(g_.blocks * chunks * width * 2), 0.0);
        cpu::parallel_for(g_.blocks * chunks, std::max<std::int64_t>(1, norm_thread_elements * chunks / elements),
                          [&](std::int64_t begin, std::int64_t end) {
                              Tiles tiles(*this);
                              for (std::int64_t task = begin; task < end; ++task) {
                                  const std::int64_t block = task / chunks, chunk = task % chunks;
                                  const std::int64_t first = g_.pieces * chunk / chunks,
                                                     last = g_.pieces * (chunk + 1) / chunks;
                                  double* sums = states.data() + task * width * 2;
                                  if (g_.rows) {
                                      add_row_sums(tiles, block, first, last, sums);
                                  } else {
                                      add_column_sums(tiles, block, first, last, sums, sums + width);
                                  }
                              }
                          });
        for (std::int64_t task = 0; task < g_.blocks * chunks; ++task) {
            const std::int64_t block = task / chunks, columns = g_.columns_of(block);
            const double* sums = states.data() + task * width * 2;
            for (std::int64_t j = 0; j < columns * g_.fold; ++j) {
                add_sums(g_.place(block, j % columns), sums[j], sums[width + j]);
            }
        }
    }

    void add_row_sums(Tiles& tiles, std::int64_t block, std::int64_t first, std::int64_t last, double* sums) const {
        const double mean = mean_[static_cast<std::size_t>(g_.place(block, 0).group)];
        for (std::int64_t p = first; p < last; ++p) {
            const NormTile t = g_.tile(block, p);
            std::int64_t stride = 0;
            const void *g = tiles.g.load(t, stride), *x = tiles.x.load(t, stride);
            kernels_.row_sums(g, x, t.width, mean, 1, nullptr, sums, nullptr, nullptr);
        }
    }

    void add_column_sums(Tiles& tiles, std::int64_t block, std::int64_t first, std::int64_t last, double* c,
                         double* cx) const {
        const std::int64_t columns = g_.columns_of(block), width = columns * g_.fold;
        std::vector<T> means(static_cast<std::size_t>(width + norm_padding), T(0));
        for (std::int64_t j = 0; j < width; ++j) {
            place_into(means, j, kernels_.evens, mean_[static_cast<std::size_t>(g_.place(block, j % columns).group)]);
        }
        for (std::int64_t p = first; p < last; ++p) {
            const NormTile t = g_.tile(block, p);
            std::int64_t g_stride = 0, x_stride = 0;
            const void *g = tiles.g.load(t, g_stride), *x = tiles.x.load(t, x_stride);
            kernels_.column_sums(g, g_stride, x, x_stride, t.rows, t.width, means.data(), c, cx);
        }
    }

    /// a, b and c of gx = a g - b - (x - mean) c for a group of one weight.
    std::array<double, 3> factors(std::int64_t group, double weight) const {
        const Sums& s = sums_[static_cast<std::size_t>(group)];
        const double r = scale_[static_cast<std::size_t>(group)], n = static_cast<double>(g_.group_size);
        return {r * weight, a_.centred ? r * s.c / n : 0.0, r * r * r * s.cx / n};
    }

    void apply(Tiles& tiles, std::int64_t block, std::int64_t piece) const {
        const NormTile t = g_.tile(block, piece);
        std::int64_t g_stride = 0, x_stride = 0, gx_stride = 0;
        const void *g = tiles.g.load(t, g_stride), *x = tiles.x.load(t, x_stride);
        void* gx = tiles.gx.place(t, gx_stride);
        if (g_.rows) {
            const auto place = g_.place(block, 0);
            const auto [a, b, c] = factors(place.group, weight_[static_cast<std::size_t>(place.affine)]);
            kernels_.row_grad(g, x, gx, t.width, mean_[static_cast<std::size_t>(place.group)], a, b, c, nullptr);
        } else {
            if (tiles.block != block) enter(tiles, block);
            kernels_.column_grad(g, g_stride, x, x_stride, gx, gx_stride, t.rows, t.width, tiles.means.data(),
                                 tiles.a.data(), tiles.b.data(), tiles.c.data());
        }
        tiles.gx.store(t);
    }

    void enter(Tiles& tiles, std::int64_t block) const {
        tiles.block = block;
        const std::int64_t columns = g_.columns_of(block), width = columns * g_.fold;
        for (auto* v : {&tiles.means, &tiles.a, &tiles.b, &tiles.c})
            v->assign(static_cast<std::size_t>(width + norm_padding), T(0));
        for (std::int64_t j = 0; j < width; ++j) {
            const auto place = g_.place(block, j % columns);
            const auto f = factors(place.group, weight_[static_cast<std::size_t>(place.affine)]);
            place_into(tiles.means, j, kernels_.evens, mean_[static_cast<std::size_t>(place.group)]);
            place_into(tiles.a, j, kernels_.evens, static_cast<T>(f[0]));
            place_into(tiles.b, j, kernels_.evens, static_cast<T>(f[1]));
            place_into(tiles.c, j, kernels_.evens, static_cast<T>(f[2]));
        }
    }

    // Rows along which the weight varies.

    /// The terms of weight and bias gradients of some groups.
    struct Partial {
        std::vector<T> weight, bias;  ///< of up to flush_groups groups, in the order of pairs
        std::vector<double> weight_sum, bias_sum;
    };

    void run_varying() {
        const auto affine = static_cast<std::int64_t>(affine_count_);
        const std::int64_t most = std::max<std::int64_t>(4, (std::int64_t{1} << 21) / affine);
        const std::int64_t tasks = std::min(
            {g_.groups, most, std::clamp<std::int64_t>(g_.groups * g_.group_size / chunk_elements, 1, wanted_tasks)});
        std::vector<Partial> partials(static_cast<std::size_t>(tasks));
        cpu::parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
            Tiles tiles(*this);
            for (std::int64_t task = begin; task < end; ++task) {
                Partial& partial = partials[static_cast<std::size_t>(task)];
                partial.weight.assign(affine_count_ + norm_padding, T(0));
                partial.bias.assign(affine_count_ + norm_padding, T(0));
                partial.weight_sum.assign(affine_count_, 0.0);
                partial.bias_sum.assign(affine_count_, 0.0);
                const std::int64_t first = g_.groups * task / tasks, last = g_.groups * (task + 1) / tasks;
                for (std::int64_t group = first; group < last; ++group) {
                    varying_group(tiles, group, partial);
                    if ((group - first + 1) % flush_groups == 0 || group + 1 == last) flush(partial);
                }
            }
        });
        for (const Partial& partial : partials) {
            for (std::size_t i = 0; i < affine_count_; ++i) {
                weight_grad_[i] += partial.weight_sum[i];
                bias_grad_[i] += partial.bias_sum[i];
            }
        }
    }

    void flush(Partial& partial) const {
        for (std::size_t i = 0; i < affine_count_; ++i) {
            const auto at = static_cast<std::size_t>(place_in_pairs(static_cast<std::int64_t>(i), kernels_.evens));
            partial.weight_sum[i] += partial.weight[at];
            partial.bias_sum[i] += partial.bias[at];
            partial.weight[at] = T(0);
            partial.bias[at] = T(0);
        }
    }

    void varying_group(Tiles& tiles, std::int64_t block, Partial& partial) const {
        const auto group = static_cast<std::size_t>(g_.place(block, 0).group);
        const double mean = mean_[group], r = scale_[group];
        const bool vector = g_.reduced.back().affine != 0;
        double sums[2] = {};
        for (std::int64_t p = 0; p < g_.pieces; ++p) {
            const NormTile t = g_.tile(block, p);
            const auto at = static_cast<std::size_t>(t.affine);
            std::int64_t stride = 0;
            const void *g = tiles.g.load(t, stride), *x = tiles.x.load(t, stride);
            if (vector) {
                kernels_.row_sums(g, x, t.width, mean, r, weight_.data() + at, sums, partial.weight.data() + at,
                                  partial.bias.data() + at);
                continue;
            }
            double run[2] = {};
            kernels_.row_sums(g, x, t.width, mean, r, nullptr, run, nullptr, nullptr);
            sums[0] += run[0] * weight_[at];
            sums[1] += run[1] * weight_[at];
            partial.weight_sum[at] += run[1] * r;
            partial.bias_sum[at] += run[0];
        }
        const double n = static_cast<double>(g_.group_size), b = a_.centred ? r * sums[0] / n : 0.0,
                     c = r * r * r * sums[1] / n;
        for (std::int64_t p = 0; p < g_.pieces; ++p) {
            const NormTile t = g_.tile(block, p);
            const auto at = static_cast<std::size_t>(t.affine);
            std::int64_t stride = 0;
            const void *g = tiles.g.load(t, stride), *x = tiles.x.load(t, stride);
            void* gx = tiles.gx.place(t, stride);
            kernels_.row_grad(g, x, gx, t.width, mean, vector ? r : r * weight_[at], b, c,
                              vector ? weight_.data() + at : nullptr);
            tiles.gx.store(t);
        }
    }

    void write_affine() const {
        write_affine(call_.outputs[1], weight_grad_);
        write_affine(call_.outputs[2], bias_grad_);
    }
    void write_affine(const View& result, const std::vector<double>& values) const {
        each_element(result, affine_strides_, [&](std::int64_t to, std::int64_t from) {
            result.as<T>()[to] = static_cast<T>(values[static_cast<std::size_t>(from)]);
        });
    }

    const graph::Call& call_;
    const NormAttributes& a_;
    Ref<Storage> grad_memory_, x_memory_;
    View gx_, grad_, x_;
    NormGeometry g_;
    DType dtype_;  ///< of the kernels
    const NormKernels& kernels_;
    Strides affine_strides_;
    std::size_t affine_count_ = 1;
    std::vector<T> mean_, weight_;
    std::vector<double> scale_, weight_grad_, bias_grad_;
    std::vector<Sums> sums_;
};

}  // namespace

void fast_normalize_grad(const graph::Call& c) {
    if (c.outputs[0].count() == 0) {  // weights that met no element
        for (std::size_t i = 1; i < c.outputs.size(); ++i) {
            const View& v = c.outputs[i];
            if (v.count() > 0) std::memset(v.data, 0, static_cast<std::size_t>(v.count() * size_of(v.dtype)));
        }
        return;
    }
    if (compute_type(c.outputs[0].dtype) == f64) return Backward<double>(c).run();
    Backward<float>(c).run();
}

}  // namespace calor::ops
