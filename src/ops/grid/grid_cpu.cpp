// Sampling on the CPU. The input is read in rows of channels or in lines of points, whichever is estimated to be
// faster: where it lies, or from a packed copy of some samples. The taps of a block of points are made once for all
// channels. The adjoint works on parts of the channels, so that every element has one writer, which adds in the order
// of the points.
#include <algorithm>
#include <cstring>

#include "device/cpu/parallel.h"
#include "ops/grid/points.h"

namespace calor::ops::grid {
namespace {

/// Packed rows of so many bytes are made at once, or of one sample.
constexpr std::int64_t packed_bytes = std::int64_t{8} << 20U;
/// A tile of rows should have at most so many bytes.
constexpr std::int64_t tile_bytes = std::int64_t{64} << 10U;

/// How an array [N, C, elements] is addressed: rows or lines, in place or in a packed copy.
struct Way {
    bool lines = false, packed = true;
};

template <class T> class Sampler {
public:
    Sampler(Role role, const graph::Call& call)
        : role_(role),
          call_(call),
          a_(call.attrs<Attributes>()),
          x_(role == Role::spread ? call.outputs[0] : call.inputs[0]),
          y_(role == Role::sample ? call.outputs[0] : call.inputs[role == Role::spread ? 0 : 2]),
          g_(call.inputs[1]) {
        const Operand y{y_, 1, 2, y_.rank()}, g{g_, g_.rank() - 1, 1, g_.rank() - 1};
        runs_ = make_runs({y, g});
        y_array_ = make_array(y, runs_);
        g_array_ = in_axis_order(make_array(g, runs_));
        if (role == Role::slope) {
            const View& out = call.outputs[0];
            out_array_ = in_axis_order(make_array({out, out.rank() - 1, 1, out.rank() - 1}, runs_));
        }
        channels_ = x_.size(1);
        for (const std::int64_t s : a_.sizes) elements_ *= s;
        width_ = padded_channels<T>(channels_);
        way_ = way();
        if (way_.lines) width_ = channels_;
        lattice_ = make_lattice<T>(a_, tap_strides(), role == Role::slope);
        points_ = lattice_.points();
        if (!way_.lines) {
            points_ = std::min(points_, std::clamp<std::int64_t>(tile_bytes / (width_ * sizeof_t + 1), 16, block));
        }
    }

    void run() {
        const std::int64_t samples = x_.size(0);
        if (!way_.packed) {
            memory_ = x_.as<T>();
            sample_stride_ = x_.stride(0);
            channel_stride_ = way_.lines ? x_.stride(1) : 1;
            if (role_ == Role::spread) clear(memory_, x_.count());
            return work(0, samples);
        }
        sample_stride_ = elements_ * width_;
        channel_stride_ = way_.lines ? elements_ : 1;
        const std::int64_t fitting = packed_bytes / std::max<std::int64_t>(1, sample_stride_ * sizeof_t);
        const std::int64_t chunk = std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(1, samples));
        const Ref<Storage> memory = graph::scratch(call_, std::max<std::int64_t>(1, chunk * sample_stride_) * sizeof_t);
        memory_ = static_cast<T*>(memory->data);
        for (std::int64_t n = 0; n < samples; n += chunk) {
            const std::int64_t count = std::min(chunk, samples - n);
            if (role_ == Role::spread) {
                clear(memory_, count * sample_stride_);
                work(n, count);
                way_.lines ? unpack_lines<T>(memory_, x_, n, count) : unpack_rows<T>(memory_, x_, n, count);
            } else {
                way_.lines ? pack_lines<T>(x_, n, count, memory_) : pack_rows<T>(x_, n, count, memory_);
                work(n, count);
            }
        }
    }

private:
    static constexpr auto sizeof_t = static_cast<std::int64_t>(sizeof(T));

    /// The coordinate of axis a becomes entry a.
    Array in_axis_order(Array array) const {
        const std::int64_t first = component(a_, 0);
        array.data += first * array.c * size_of(array.dtype);
        if (first != 0) array.c = -array.c;
        return array;
    }

    /// The cheaper of rows and lines by cycles an element, roughly: lines gather single elements; rows read vectors,
    /// but look at every tap's offset and are transposed before and after; that has no vectors below 4 channels.
    Way way() const {
        const bool forward = std::all_of(x_.strides->begin(), x_.strides->end(), [](auto s) { return s >= 0; });
        const bool in_place = x_.dtype == dtype_of<T> && forward;
        if (in_place && channels_ > 1 && x_.stride(1) == 1 && width_ == channels_) return {false, false};
        double taps = 1;
        for (std::int64_t i = 0; i < a_.sizes.rank(); ++i) taps *= static_cast<double>(taps_per_axis(a_.mode));
        const double points = static_cast<double>(runs_.count * runs_.length), wide = static_cast<double>(width_);
        const double elements = static_cast<double>(elements_);
        const double lines = static_cast<double>(channels_) * (points * (3 * taps + 1) + (in_place ? 0 : elements));
        const double rows = wide * (points * (taps / 4 + 1) + elements) + 1.5 * taps * points;
        const bool prefer_lines = channels_ < 4 || lines < rows;
        return {prefer_lines, !prefer_lines || !in_place};
    }

    Dims tap_strides() const {
        Dims strides(a_.sizes.rank(), way_.lines ? 1 : width_);
        if (!way_.packed) {
            for (std::int64_t i = 0; i < strides.rank(); ++i) strides[i] = x_.stride(i + 2);
            return strides;
        }
        for (std::int64_t i = strides.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * a_.sizes[i + 1];
        return strides;
    }

    static void clear(T* data, std::int64_t count) {
        cpu::parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            std::memset(data + begin, 0, static_cast<std::size_t>((end - begin) * sizeof_t));
        });
    }

    /// Whether tiles of the operand [N, C, points] can be used where they lie, as rows or as lines.
    bool direct() const {
        if (y_array_.dtype != dtype_of<T>) return false;
        return way_.lines ? y_array_.p == 1 || runs_.length == 1 : y_array_.c == 1 && width_ == channels_;
    }
    std::int64_t tile_stride() const {
        if (direct()) return way_.lines ? y_array_.c : y_array_.p;
        return way_.lines ? block : width_;
    }

    /// What a thread needs.
    struct Worker {
        explicit Worker(const Sampler& s)
            : taps(s.lattice_),
              coordinates(static_cast<std::size_t>(s.lattice_.rank() * block)),
              tile(static_cast<std::size_t>((s.way_.lines ? block : s.points_) * s.width_)),
              sums(static_cast<std::size_t>(s.lattice_.sets() * block)) {}
        Taps<T> taps;
        std::vector<T> coordinates, tile, sums;
    };

    void make_taps(Worker& w, std::int64_t sample, const BlockPlace& at) const {
        load_lines(run_of(g_array_, runs_, at.run), sample, lattice_.rank(), at.first, at.count, w.coordinates.data());
        taps_(lattice_, w.coordinates.data(), at.count, w.taps);
    }

    /// The tile of a block: where it lies, or the worker's memory; filled from there when `load`.
    T* tile_of(Worker& w, const Array& run, std::int64_t n, std::int64_t c, std::int64_t channels, std::int64_t wide,
               const BlockPlace& at, bool load) const {
        if (direct()) return reinterpret_cast<T*>(run.at(n, c, at.first));
        if (!load) return w.tile.data();
        if (way_.lines) {
            Array part = run;
            part.data += c * part.c * size_of(part.dtype);
            load_lines(part, n, channels, at.first, at.count, w.tile.data());
        } else {
            load_tile(run, n, c, channels, at.first, at.count, w.tile.data(), width_, wide);
        }
        return w.tile.data();
    }

    /// Samples [n, n + count), the first of which is at memory_ (packed) or n strides from there.
    void work(std::int64_t n, std::int64_t count) const {
        if (runs_.count * runs_.length == 0) return;
        if (role_ == Role::spread) return spread(n, count);
        const Blocks blocks(runs_, points_);
        const std::int64_t cost = points_ * std::max<std::int64_t>(channels_, 4);
        cpu::parallel_for(count * blocks.in_sample, std::max<std::int64_t>(1, 4096 / cost),
                          [&](std::int64_t begin, std::int64_t end) {
                              Worker w(*this);
                              for (std::int64_t u = begin; u < end; ++u) {
                                  const BlockPlace at = place_of(blocks, runs_, u);
                                  make_taps(w, n + at.sample, at);
                                  const T* x = memory_ + at.sample * sample_stride_;
                                  if (role_ == Role::sample) {
                                      sample(w, x, n + at.sample, at);
                                  } else {
                                      slope(w, x, n + at.sample, at);
                                  }
                              }
                          });
    }

    void sample(Worker& w, const T* x, std::int64_t n, const BlockPlace& at) const {
        const Array y = run_of(y_array_, runs_, at.run);
        T* tile = tile_of(w, y, n, 0, channels_, width_, at, false);
        if (way_.lines) {
            lines_.gather(w.taps, at.count, x, channel_stride_, channels_, tile, tile_stride());
            if (!direct()) store_lines(tile, y, n, channels_, at.first, at.count);
        } else {
            rows_.gather(w.taps, at.count, x, width_, tile, tile_stride());
            if (!direct()) store_tile(tile, tile_stride(), y, n, 0, channels_, at.first, at.count);
        }
    }

    void slope(Worker& w, const T* x, std::int64_t n, const BlockPlace& at) const {
        const Array h = run_of(y_array_, runs_, at.run);
        const T* tile = tile_of(w, h, n, 0, channels_, width_, at, true);
        if (way_.lines) {
            lines_.dots(w.taps, at.count, x, channel_stride_, channels_, tile, tile_stride(), w.sums.data());
        } else {
            rows_.dots(w.taps, at.count, x, width_, tile, tile_stride(), w.sums.data());
        }
        store_lines(w.sums.data() + block, run_of(out_array_, runs_, at.run), n, lattice_.rank(), at.first, at.count);
    }

    /// A thread has parts of the channels of a sample to itself.
    void spread(std::int64_t n, std::int64_t count) const {
        const std::int64_t lanes = way_.lines ? 1 : std::min<std::int64_t>(width_, 32 / sizeof_t);
        const std::int64_t wanted =
            std::max<std::int64_t>(1, (thread_count() + count - 1) / std::max<std::int64_t>(1, count));
        const std::int64_t part = (width_ / std::max<std::int64_t>(1, lanes) + wanted - 1) / wanted * lanes;
        if (part == 0) return;
        const std::int64_t parts = (width_ + part - 1) / part;
        const Blocks blocks(runs_, points_);
        cpu::parallel_for(count * parts, 1, [&](std::int64_t begin, std::int64_t end) {
            Worker w(*this);
            for (std::int64_t u = begin; u < end; ++u) {
                const std::int64_t sample = u / parts, c = u % parts * part, wide = std::min(part, width_ - c);
                T* x = memory_ + sample * sample_stride_ + c * channel_stride_;
                for (std::int64_t b = 0; b < blocks.in_sample; ++b) {
                    const BlockPlace at = place_of(blocks, runs_, b);
                    make_taps(w, n + sample, at);
                    spread_block(w, x, n + sample, c, wide, at);
                }
            }
        });
    }

    void spread_block(Worker& w, T* x, std::int64_t n, std::int64_t c, std::int64_t wide, const BlockPlace& at) const {
        const std::int64_t some = std::clamp<std::int64_t>(channels_ - c, 0, wide);
        const T* tile = tile_of(w, run_of(y_array_, runs_, at.run), n, c, some, wide, at, true);
        if (way_.lines) {
            lines_.scatter(w.taps, at.count, x, channel_stride_, some, tile, tile_stride());
        } else {
            rows_.scatter(w.taps, at.count, x, wide, tile, tile_stride());
        }
    }

    Role role_;
    const graph::Call& call_;
    const Attributes& a_;
    const View &x_, &y_, &g_;
    Runs runs_;
    Array y_array_, g_array_, out_array_;
    std::int64_t channels_ = 0, elements_ = 1, width_ = 0, points_ = block;
    Way way_;
    Lattice<T> lattice_;
    TapsKernel<T> taps_ = taps_kernel<T>();
    const RowKernels<T>& rows_ = row_kernels<T>();
    const LineKernels<T>& lines_ = line_kernels<T>();
    T* memory_ = nullptr;
    std::int64_t sample_stride_ = 0, channel_stride_ = 0;
};

}  // namespace

void run_fast(Role role, const graph::Call& call) {
    const View& x = role == Role::spread ? call.outputs[0] : call.inputs[0];
    if (x.dtype == f64) return Sampler<double>(role, call).run();
    Sampler<float>(role, call).run();
}

}  // namespace calor::ops::grid
