// Deformable convolution on the CPU: columns [points, offset groups, K, channels] of a chunk of positions are sampled
// from rows of channels (rows.h), and multiplied with the weight (device/cpu/gemm.h). Everything runs in one order for
// any number of threads: sums over positions go chunk by chunk, and every element of the input's gradient has one
// writer.
#include <algorithm>
#include <cstring>

#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "ops/grid/deform.h"
#include "ops/grid/points.h"
#include "ops/widen.h"

namespace calor::ops::deform {
namespace {

using grid::Array;
using grid::block;
using grid::BlockPlace;
using Table = std::vector<std::int64_t>;

constexpr std::int64_t column_bytes = std::int64_t{1} << 20U;  // of a chunk

Table steps(std::int64_t count, std::int64_t stride) {
    Table table(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) table[static_cast<std::size_t>(i)] = i * stride;
    return table;
}

/// An operand [N, channels, positions...] whose positions lie in one run: itself, or a copy.
class OneRun {
public:
    OneRun(const graph::Call& call, const View* view) {
        if (!view) return;
        const grid::Runs runs = grid::make_runs({{*view, 1, 2, view->rank()}});
        if (runs.outer.empty()) {
            array_ = grid::make_array({*view, 1, 2, view->rank()}, runs);
            return;
        }
        copy_ = graph::scratch(call, view->count() * size_of(view->dtype));
        const Strides strides = contiguous_strides(*view->shape);
        copy_view(*view, {copy_->data, view->dtype, view->shape, &strides});
        array_ = {static_cast<std::byte*>(copy_->data), view->dtype, strides[0], strides[1], 1, {}};
    }
    const Array& array() const { return array_; }

private:
    Ref<Storage> copy_;
    Array array_;
};

template <class T> class Deform {
public:
    Deform(bool backward, const graph::Call& call)
        : backward_(backward),
          call_(call),
          a_(call.attrs<Attributes>()),
          o_(operands(backward, call)),
          s_(sizes_of(a_, o_.x.size(0), o_.x.size(1), o_.weight.size(0))),
          width_(grid::padded_channels<T>(s_.per_offset)),
          pitch_(a_.offset_groups * s_.taps * width_),
          offset_(call, &o_.offset),
          mask_(call, o_.mask),
          y_(call, &o_.y) {
        grid::Attributes sampling;
        sampling.pixels = true;
        sampling.sizes = a_.sizes;
        sampling.orders = Dims(s_.axes, 0);
        Dims strides(s_.axes, width_);
        for (std::int64_t i = s_.axes - 2; i >= 0; --i) strides[i] = strides[i + 1] * a_.sizes[i + 1];
        plain_ = grid::make_lattice<T>(sampling, strides, false);
        sloped_ = grid::make_lattice<T>(sampling, strides, true);
        const std::int64_t fitting = column_bytes / std::max<std::int64_t>(1, pitch_ * bytes);
        chunk_ = std::min(std::max<std::int64_t>(fitting / block, 1) * block, std::max<std::int64_t>(s_.points, 1));
        make_tables();
    }

    void run() {
        if (!backward_ && o_.y.count() == 0) return;
        weight_ = buffer(o_.weight.count());
        const Strides dense = contiguous_strides(*o_.weight.shape);
        convert_view(o_.weight, {weight_->data, dtype_of<T>, o_.weight.shape, &dense});
        rows_ = buffer(a_.offset_groups * s_.elements * width_);
        columns_ = zeros(chunk_ * pitch_);
        out_ = buffer(s_.out * chunk_);
        if (backward_) return run_backward();
        const WidenedVector bias(call_, o_.bias);
        for (std::int64_t n = 0; n < s_.samples; ++n) {
            pack(n);
            for (std::int64_t p = 0; p < s_.points; p += chunk_) {
                const std::int64_t count = std::min(chunk_, s_.points - p);
                sample_columns(data(columns_), n, p, count);
                multiply_forward(count, bias.data<T>());
                move_out(n, p, count, true);
            }
        }
    }

private:
    static constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));

    Ref<Storage> buffer(std::int64_t count) const {
        return graph::scratch(call_, checked_multiply(std::max<std::int64_t>(count, 1), bytes, call_.where));
    }
    Ref<Storage> zeros(std::int64_t count) const {
        Ref<Storage> memory = buffer(count);
        std::memset(memory->data, 0, static_cast<std::size_t>(std::max<std::int64_t>(count, 1) * bytes));
        return memory;
    }
    static T* data(const Ref<Storage>& memory) { return static_cast<T*>(memory->data); }

    /// Where the entries (k, c) of a weight group lie in the weight and in a column.
    void make_tables() {
        for (std::int64_t k = 0; k < s_.taps; ++k) {
            for (std::int64_t c = 0; c < s_.per_group; ++c) in_weight_.push_back(c * s_.taps + k);
        }
        for (std::int64_t g = 0; g < a_.groups; ++g) {
            Table table;
            for (std::int64_t k = 0; k < s_.taps; ++k) {
                for (std::int64_t i = 0; i < s_.per_group; ++i) {
                    const std::int64_t c = g * s_.per_group + i;
                    table.push_back((c / s_.per_offset * s_.taps + k) * width_ + c % s_.per_offset);
                }
            }
            in_column_.push_back(std::move(table));
        }
        of_points_ = steps(chunk_, pitch_);
        of_outs_ = steps(s_.out / a_.groups, s_.per_group * s_.taps);
        of_chunk_ = steps(chunk_, 1);
        of_out_rows_ = steps(s_.out / a_.groups, chunk_);
        // All groups in one call where their tables are one shifted.
        together_ = true;
        for (std::int64_t g = 0; g < a_.groups; ++g) {
            const Table& table = in_column_[static_cast<std::size_t>(g)];
            const std::int64_t shift = table.empty() ? 0 : table[0] - in_column_[0][0];
            for (std::size_t i = 0; i < table.size() && together_; ++i)
                together_ = table[i] - in_column_[0][i] == shift;
            column_shift_.push_back(shift);
            weight_shift_.push_back(g * (s_.out / a_.groups) * s_.per_group * s_.taps);
            out_shift_.push_back(g * (s_.out / a_.groups) * chunk_);
        }
    }

    /// Calls body(first group, groups) once, or once a group.
    template <class F> void for_groups(const F& body) const {
        if (together_) return body(0, a_.groups);
        for (std::int64_t g = 0; g < a_.groups; ++g) body(g, 1);
    }
    const std::int64_t* shifts(const Table& table, std::int64_t g, std::int64_t groups) const {
        return groups > 1 ? table.data() + g : zero_.data();
    }
    template <class P> P* shifted(P* base, const Table& table, std::int64_t g, std::int64_t groups) const {
        return groups > 1 ? base : base + table[static_cast<std::size_t>(g)];
    }
    const std::int64_t* column_table(std::int64_t g, std::int64_t groups) const {
        return (groups > 1 ? in_column_[0] : in_column_[static_cast<std::size_t>(g)]).data();
    }

    /// out[o, p] = bias[o] + sum over (k, c) of w columns.
    void multiply_forward(std::int64_t count, const T* bias) const {
        for_groups([&](std::int64_t g, std::int64_t groups) {
            // A table that starts elsewhere: the column's own entries already include the shift of a single group.
            cpu::Gemm<T> m;
            m.m = s_.out / a_.groups, m.n = count, m.k = s_.per_group * s_.taps, m.batch = groups;
            m.a = shifted(static_cast<const T*>(data(weight_)), weight_shift_, g, groups);
            m.b = data(columns_);
            m.c = shifted(data(out_), out_shift_, g, groups);
            m.a_row = of_outs_.data(), m.a_inner = in_weight_.data(), m.a_batch = shifts(weight_shift_, g, groups);
            m.b_inner = column_table(g, groups), m.b_column = of_points_.data();
            m.b_batch = shifts(column_shift_, g, groups);
            m.c_row = of_out_rows_.data(), m.c_column = of_chunk_.data(), m.c_batch = shifts(out_shift_, g, groups);
            m.row_bias = bias ? bias + g * m.m : nullptr;
            cpu::gemm(m);
        });
    }

    /// columns[p, (k, c)] = sum over o of gy[o, p] w.
    void multiply_input(std::int64_t count) const {
        for_groups([&](std::int64_t g, std::int64_t groups) {
            cpu::Gemm<T> m;
            m.m = count, m.n = s_.per_group * s_.taps, m.k = s_.out / a_.groups, m.batch = groups;
            m.a = shifted(static_cast<const T*>(data(out_)), out_shift_, g, groups);
            m.b = shifted(static_cast<const T*>(data(weight_)), weight_shift_, g, groups);
            m.c = data(columns_);
            m.a_row = of_chunk_.data(), m.a_inner = of_out_rows_.data(), m.a_batch = shifts(out_shift_, g, groups);
            m.b_inner = of_outs_.data(), m.b_column = in_weight_.data(), m.b_batch = shifts(weight_shift_, g, groups);
            m.c_row = of_points_.data(), m.c_column = column_table(g, groups);
            m.c_batch = shifts(column_shift_, g, groups);
            cpu::gemm(m);
        });
    }

    /// gw[o, (k, c)] (+)= sum over p of gy[o, p] columns[p, (k, c)].
    void multiply_weight(std::int64_t count, const T* columns, T* gweight, bool accumulate) const {
        for_groups([&](std::int64_t g, std::int64_t groups) {
            cpu::Gemm<T> m;
            m.m = s_.out / a_.groups, m.n = s_.per_group * s_.taps, m.k = count, m.batch = groups;
            m.a = shifted(static_cast<const T*>(data(out_)), out_shift_, g, groups);
            m.b = columns;
            m.c = shifted(gweight, weight_shift_, g, groups);
            m.a_row = of_out_rows_.data(), m.a_inner = of_chunk_.data(), m.a_batch = shifts(out_shift_, g, groups);
            m.b_inner = of_points_.data(), m.b_column = column_table(g, groups);
            m.b_batch = shifts(column_shift_, g, groups);
            m.c_row = of_outs_.data(), m.c_column = in_weight_.data(), m.c_batch = shifts(weight_shift_, g, groups);
            m.accumulate = accumulate;
            cpu::gemm(m);
        });
    }

    /// Between out [O, chunk] and points [p, p + count) of sample n of the result or its gradient.
    void move_out(std::int64_t n, std::int64_t p, std::int64_t count, bool store) const {
        cpu::parallel_for(s_.out, std::max<std::int64_t>(1, 8192 / count), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                Array line = y_.array();
                line.data += i * line.c * size_of(line.dtype);
                for (std::int64_t q = 0; q < count; q += block) {
                    T* values = data(out_) + i * chunk_ + q;
                    const std::int64_t some = std::min(block, count - q);
                    if (store) {
                        grid::store_lines(values, line, n, 1, p + q, some);
                    } else {
                        grid::load_lines(line, n, 1, p + q, some, values);
                    }
                }
            }
        });
    }

    View part_of(const View& x, std::int64_t n, std::int64_t h, Shape& shape) const {
        shape = *x.shape;
        shape[0] = 1;
        shape[1] = s_.per_offset;
        View part = x;
        part.shape = &shape;
        part.data = x.as<std::byte>() + (n * x.stride(0) + h * s_.per_offset * x.stride(1)) * size_of(x.dtype);
        return part;
    }
    void pack(std::int64_t n) const {
        Shape shape;
        for (std::int64_t h = 0; h < a_.offset_groups; ++h) {
            grid::pack_rows<T>(part_of(o_.x, n, h, shape), 0, 1, data(rows_) + h * s_.elements * width_);
        }
    }

    struct Worker {
        explicit Worker(const grid::Lattice<T>& lattice)
            : taps(lattice),
              coordinates(static_cast<std::size_t>(lattice.rank() * block)),
              sums(static_cast<std::size_t>(lattice.sets() * block)) {}
        grid::Taps<T> taps;
        std::vector<T> coordinates, sums;
        T mask[block];
    };

    /// The taps of tap k of offset group h at points [p, p + count), and their mask.
    void make_taps(const grid::Lattice<T>& lattice, Worker& w, std::int64_t n, std::int64_t h, std::int64_t k,
                   std::int64_t p, std::int64_t count) const {
        const std::int64_t channel = h * s_.taps + k;
        Array moved = offset_.array();
        moved.data += channel * s_.axes * moved.c * size_of(moved.dtype);
        grid::load_lines(moved, n, s_.axes, p, count, w.coordinates.data());
        std::int64_t tap_stride = s_.taps, point_stride = s_.points;
        for (std::int64_t i = 0; i < s_.axes; ++i) {
            tap_stride /= a_.window.kernel[i];
            point_stride /= a_.positions[i];
            const std::int64_t fixed =
                k / tap_stride % a_.window.kernel[i] * a_.window.dilation[i] - a_.window.pad_low[i];
            std::int64_t at = p / point_stride % a_.positions[i], rest = p % point_stride;
            T* u = w.coordinates.data() + i * block;
            for (std::int64_t q = 0; q < count; ++q) {
                u[q] += static_cast<T>(fixed + at * a_.window.stride[i]);
                if (++rest == point_stride) {
                    rest = 0;
                    at = at + 1 == a_.positions[i] ? 0 : at + 1;
                }
            }
        }
        grid::taps_kernel<T>()(lattice, w.coordinates.data(), count, w.taps);
        if (!o_.mask) return;
        Array factors = mask_.array();
        factors.data += channel * factors.c * size_of(factors.dtype);
        grid::load_lines(factors, n, 1, p, count, w.mask);
    }
    /// Multiplies the first weights of every tap with the mask.
    void apply_mask(Worker& w, std::int64_t count) const {
        if (!o_.mask) return;
        for (std::int64_t t = 0; t < w.taps.count; ++t) {
            T* weights = w.taps.weight.data() + t * w.taps.pitch;
            for (std::int64_t q = 0; q < count; ++q) weights[q] *= w.mask[q];
        }
    }

    /// Calls body(worker, offset group, tap, first, count) for the blocks of a chunk, in parallel.
    template <class F>
    void for_blocks(const grid::Lattice<T>& lattice, std::int64_t p, std::int64_t count, const F& body) const {
        const std::int64_t size = lattice.points(), blocks = (count + size - 1) / size;
        cpu::parallel_for(a_.offset_groups * s_.taps * blocks, 2, [&](std::int64_t begin, std::int64_t end) {
            Worker w(lattice);
            for (std::int64_t u = begin; u < end; ++u) {
                const std::int64_t first = u % blocks * size, tap = u / blocks;
                body(w, tap / s_.taps, tap % s_.taps, p + first, std::min(size, count - first));
            }
        });
    }
    T* column(T* columns, std::int64_t h, std::int64_t k, std::int64_t in_chunk) const {
        return columns + in_chunk * pitch_ + (h * s_.taps + k) * width_;
    }

    void sample_columns(T* columns, std::int64_t n, std::int64_t p, std::int64_t count) const {
        for_blocks(plain_, p, count, [&](Worker& w, std::int64_t h, std::int64_t k, std::int64_t q, std::int64_t some) {
            make_taps(plain_, w, n, h, k, q, some);
            apply_mask(w, some);
            const T* x = data(rows_) + h * s_.elements * width_;
            T* to = column(columns, h, k, q - p);
            grid::row_kernels<T>().gather(w.taps, some, x, width_, to, pitch_);
        });
    }

    void run_backward() {
        const Ref<Storage> gweight = zeros(o_.gweight ? o_.weight.count() : 0);
        const Ref<Storage> sampled = o_.gweight ? zeros(chunk_ * pitch_) : Ref<Storage>();
        if (o_.gx) grows_ = buffer(a_.offset_groups * s_.elements * width_);
        bool started = false;
        for (std::int64_t n = 0; n < s_.samples; ++n) {
            pack(n);
            if (o_.gx)
                std::memset(data(grows_), 0, static_cast<std::size_t>(a_.offset_groups * s_.elements * width_ * bytes));
            for (std::int64_t p = 0; p < s_.points; p += chunk_) {
                const std::int64_t count = std::min(chunk_, s_.points - p);
                move_out(n, p, count, false);
                if (o_.gx || o_.goffset) multiply_input(count);
                if (o_.goffset) slopes(n, p, count);
                if (o_.gx) scatter(n, p, count);
                if (!o_.gweight) continue;
                sample_columns(data(sampled), n, p, count);
                multiply_weight(count, data(sampled), data(gweight), started);
                started = true;
            }
            if (o_.gx) unpack(n);
        }
        if (!o_.gweight) return;
        const Strides dense = contiguous_strides(*o_.weight.shape);
        convert_view({data(gweight), dtype_of<T>, o_.weight.shape, &dense}, *o_.gweight);
    }

    /// Gradients of the offsets and the mask.
    void slopes(std::int64_t n, std::int64_t p, std::int64_t count) const {
        const grid::Runs runs = grid::make_runs({{*o_.goffset, 1, 2, o_.goffset->rank()}});
        const Array goffset = grid::make_array({*o_.goffset, 1, 2, o_.goffset->rank()}, runs);
        const Array gmask = o_.gmask ? grid::make_array({*o_.gmask, 1, 2, o_.gmask->rank()}, runs) : Array();
        for_blocks(sloped_, p, count,
                   [&](Worker& w, std::int64_t h, std::int64_t k, std::int64_t q, std::int64_t some) {
                       make_taps(sloped_, w, n, h, k, q, some);
                       const T* x = data(rows_) + h * s_.elements * width_;
                       const T* flow = column(data(columns_), h, k, q - p);
                       const std::int64_t channel = h * s_.taps + k;
                       grid::row_kernels<T>().dots(w.taps, some, x, width_, flow, pitch_, w.sums.data());
                       if (o_.gmask) {
                           Array to = gmask;
                           to.data += channel * to.c * size_of(to.dtype);
                           grid::store_lines(w.sums.data(), to, n, 1, q, some);
                       }
                       for (std::int64_t i = 0; o_.mask && i < s_.axes; ++i) {
                           for (std::int64_t j = 0; j < some; ++j)
                               w.sums[static_cast<std::size_t>((i + 1) * block + j)] *= w.mask[j];
                       }
                       Array to = goffset;
                       to.data += channel * s_.axes * to.c * size_of(to.dtype);
                       grid::store_lines(w.sums.data() + block, to, n, s_.axes, q, some);
                   });
    }

    /// Gradient of the input's rows: a thread has parts of the channels of an offset group to itself.
    void scatter(std::int64_t n, std::int64_t p, std::int64_t count) const {
        const std::int64_t lanes = std::min<std::int64_t>(width_, 32 / bytes), threads = thread_count();
        const std::int64_t wanted = (threads + a_.offset_groups - 1) / a_.offset_groups;
        const std::int64_t part = std::max<std::int64_t>(1, (width_ / lanes + wanted - 1) / wanted) * lanes;
        const std::int64_t parts = (width_ + part - 1) / part, size = plain_.points();
        cpu::parallel_for(a_.offset_groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
            Worker w(plain_);
            for (std::int64_t u = begin; u < end; ++u) {
                const std::int64_t h = u / parts, c = u % parts * part, wide = std::min(part, width_ - c);
                T* x = data(grows_) + h * s_.elements * width_ + c;
                for (std::int64_t k = 0; k < s_.taps; ++k) {
                    for (std::int64_t q = 0; q < count; q += size) {
                        const std::int64_t some = std::min(size, count - q);
                        make_taps(plain_, w, n, h, k, p + q, some);
                        apply_mask(w, some);
                        const T* flow = column(data(columns_), h, k, q) + c;
                        grid::row_kernels<T>().scatter(w.taps, some, x, wide, flow, pitch_);
                    }
                }
            }
        });
    }

    void unpack(std::int64_t n) const {
        Shape shape;
        for (std::int64_t h = 0; h < a_.offset_groups; ++h) {
            grid::unpack_rows<T>(data(grows_) + h * s_.elements * width_, part_of(*o_.gx, n, h, shape), 0, 1);
        }
    }

    bool backward_;
    const graph::Call& call_;
    const Attributes& a_;
    Operands o_;
    Sizes s_;
    std::int64_t width_, pitch_, chunk_ = block;
    OneRun offset_, mask_, y_;
    grid::Lattice<T> plain_, sloped_;
    Ref<Storage> weight_, rows_, grows_, columns_, out_;
    bool together_ = true;
    std::vector<Table> in_column_;
    Table in_weight_, of_points_, of_outs_, of_chunk_, of_out_rows_, column_shift_, weight_shift_, out_shift_;
    Table zero_ = Table(1, 0);
};

}  // namespace

void run_fast(bool backward, const graph::Call& call) {
    if (call.inputs[0].dtype == f64) return Deform<double>(backward, call).run();
    Deform<float>(backward, call).run();
}

}  // namespace calor::ops::deform
