// Sampling on GPUs: launches of sampling.kernel.
#include "device/gpu/buckets.h"
#include "ops/grid/sampling_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile grid_sampling;
}

namespace ops::grid {
namespace {

/// Entries of the adjoint that are sorted at once, if one sample has no more.
constexpr std::int64_t most_entries = std::int64_t{1} << 23;

/// An operand's strides along the points.
Strides of_points(const View& v, std::int64_t first, std::int64_t last) {
    Strides strides;
    for (std::int64_t i = first; i < last; ++i) strides.push_back(v.stride(i));
    return strides;
}
Strides along_points(const View& y) { return of_points(y, 2, y.rank()); }
Strides along_grid(const View& g) { return of_points(g, 1, g.rank() - 1); }

/// The points of some operands as few axes; at least one.
gpu::Walk points_of(const View& g, std::initializer_list<const Strides*> operands) {
    Shape shape;
    for (std::int64_t i = 1; i + 1 < g.rank(); ++i) shape.push_back(g.size(i));
    gpu::Walk walk = gpu::join_axes(shape, std::span(operands.begin(), operands.size()), **operands.begin());
    if (walk.sizes.empty()) {
        walk.sizes.push_back(1);
        for (Strides& s : walk.strides) s.push_back(0);
    }
    return walk;
}

DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

/// What all kernels are told about the axes.
struct Problem {
    const graph::Call& call;
    const Attributes& a;
    const View& x;
    const View& g;

    std::int64_t rank() const { return a.sizes.rank(); }
    std::int64_t mode() const { return a.mode == GridMode::nearest ? 0 : a.mode == GridMode::linear ? 1 : 2; }
    std::int64_t padding() const {
        return a.padding == GridPadding::zeros ? 0 : a.padding == GridPadding::border ? 1 : 2;
    }
    std::int64_t flags() const { return (a.align_corners ? 1 : 0) + (a.pixels ? 2 : 0); }
    std::int64_t elements() const {
        std::int64_t n = 1;
        for (const std::int64_t s : a.sizes) n *= s;
        return n;
    }
    std::int64_t taps() const {
        std::int64_t n = 1;
        for (std::int64_t i = 0; i < rank(); ++i) n *= taps_per_axis(a.mode);
        return n;
    }

    gpu::Launch start(const char* entry, bool slopes, std::int64_t point_axes) const {
        gpu::Launch l = launch(call, kernels::grid_sampling, entry);
        bool ordered = false;
        for (const std::int64_t order : a.orders) ordered = ordered || order != 0;
        l.constant("RANK", rank()).constant("SLOPES", slopes).constant("ORDERED", ordered);
        l.constant("POINT_AXES", point_axes).constant("A", wide(x.dtype)).constant("G", g.dtype);
        // Constants let a GPU keep the taps in registers; a CPU driver compiles fewer variants without.
        if (call.backend.gpu()->traits().kind == DeviceKind::cuda) {
            l.constant("MODE", mode()).constant("PADDING", padding());
        }
        return l;
    }
    void add_lattice(gpu::Launch& l) const {
        Dims strides, orders, components;
        for (std::int64_t i = 0; i < rank(); ++i) {
            strides.push_back(x.stride(i + 2));
            orders.push_back(std::min<std::int64_t>(a.orders[i], 4));
            components.push_back(component(a, i));
        }
        l.layout(a.sizes, {strides, orders, components});
    }
    /// Into how many parts the channels of a place are cut, for `places` of them.
    std::int64_t channel_chunks(std::int64_t places, std::int64_t channels, bool inside) const {
        const std::int64_t wanted = std::int64_t{call.backend.gpu()->traits().units} * 4096;
        std::int64_t chunks = (wanted + places - 1) / std::max<std::int64_t>(1, places);
        if (inside) chunks = std::max<std::int64_t>(chunks, 32);
        return std::clamp<std::int64_t>(chunks, 1, std::max<std::int64_t>(1, channels));
    }
};

Dims three(std::int64_t n, std::int64_t chunks, std::int64_t places, bool inside) {
    return inside ? Dims{n, places, chunks} : Dims{n, chunks, places};
}

}  // namespace

void sample_on_gpu(const graph::Call& call, const Attributes& a, const View& x, const View& g, const View& y) {
    if (y.count() == 0) return;
    const Problem problem{call, a, x, g};
    const Strides of_y = along_points(y), of_g = along_grid(g);
    const gpu::Walk points = points_of(g, {&of_y, &of_g});
    const bool inside = channels_inside(y);
    const std::int64_t n = y.size(0), channels = y.size(1), count = points.count();
    const std::int64_t chunks = problem.channel_chunks(n * count, channels, inside);
    const Dims x_n{x.stride(0), 0, 0}, y_n{y.stride(0), 0, 0}, g_n{g.stride(0), 0, 0};
    gpu::Launch l = problem.start("sample", false, points.sizes.rank());
    l.constant("X", x.dtype).constant("Y", y.dtype).constant("CHANNELS_LAST", inside);
    l.buffer(x).buffer(g).buffer(y).size(n * chunks * count).size(channels);
    l.size(problem.mode()).size(problem.padding()).size(problem.flags());
    l.size(x.stride(1)).size(y.stride(1)).size(g.stride(g.rank() - 1));
    l.layout(three(n, chunks, count, inside), {x_n, y_n, g_n}).layout(points.sizes, points.lists());
    problem.add_lattice(l);
    l.over(n * chunks * count);
}

void slope_on_gpu(const graph::Call& call, const Attributes& a, const View& x, const View& g, const View& h,
                  const View& gg) {
    if (gg.count() == 0) return;
    const Problem problem{call, a, x, g};
    const Strides of_h = along_points(h), of_g = along_grid(g), of_gg = along_grid(gg);
    const gpu::Walk points = points_of(g, {&of_h, &of_g, &of_gg});
    const std::int64_t n = g.size(0), count = points.count();
    const Dims x_n{x.stride(0), 0}, h_n{h.stride(0), 0}, g_n{g.stride(0), 0}, gg_n{gg.stride(0), 0};
    gpu::Launch l = problem.start("slope", true, points.sizes.rank());
    l.constant("X", x.dtype).constant("Y", h.dtype).constant("Z", gg.dtype);
    l.buffer(x).buffer(g).buffer(h).buffer(gg).size(n * count).size(x.size(1));
    l.size(problem.mode()).size(problem.padding()).size(problem.flags());
    l.size(x.stride(1)).size(h.stride(1)).size(g.stride(g.rank() - 1)).size(gg.stride(gg.rank() - 1));
    l.layout(Dims{n, count}, {x_n, h_n, g_n, gg_n}).layout(points.sizes, points.lists());
    problem.add_lattice(l);
    l.over(n * count);
}

namespace {

class Spread {
public:
    Spread(const Problem& problem, const View& h, const View& gx)
        : p_(problem), h_(h), gx_(gx), elements_(p_.elements()), taps_(p_.taps()) {
        const Strides of_h = along_points(h), of_g = along_grid(p_.g);
        points_ = points_of(p_.g, {&of_h, &of_g});
        inside_ = channels_inside(gx);
        if (elements_ > std::int64_t{1} << 31 || taps_ > std::int64_t{1} << 24) {
            fail("device/unsupported", p_.call.operation, p_.call.where,
                 {{"device", to_string(p_.call.backend.gpu()->device())},
                  {"what", "grids with 2^31 elements a sample"}});
        }
    }

    void run() {
        const std::int64_t samples = gx_.size(0), count = points_.count();
        const std::int64_t in_chunk =
            std::clamp<std::int64_t>(count, 0, std::max<std::int64_t>(1, most_entries / taps_));
        if (in_chunk < count && gx_.dtype != wide(gx_.dtype)) return run_rounded();
        const std::int64_t fitting =
            std::min(most_entries / std::max<std::int64_t>(1, in_chunk * taps_), (std::int64_t{1} << 30) / elements_);
        const std::int64_t together = in_chunk < count ? 1 : std::max<std::int64_t>(1, fitting);
        for (std::int64_t n = 0; n < samples; n += together) {
            const std::int64_t some = std::min(together, samples - n);
            std::int64_t first = 0;
            do {
                chunk(n, some, first, std::min(in_chunk, count - first));
                first += in_chunk;
            } while (first < count);
        }
    }

private:
    /// Halves whose sums come in several parts: added up wide, rounded once.
    void run_rounded() {
        const Strides dense = contiguous_strides(*gx_.shape);
        const Ref<Storage> memory = graph::scratch(p_.call, gx_.count() * 4);
        const View sums{memory->data, f32, gx_.shape, &dense};
        Problem problem{p_.call, p_.a, sums, p_.g};
        Spread(problem, h_, sums).run();
        gpu::Launch l = p_.start("narrow", false, 1);
        l.constant("X", gx_.dtype).buffer(sums).buffer(gx_).size(gx_.count());
        l.layout(*gx_.shape, {*gx_.strides}).over(gx_.count());
    }

    static const std::byte* from(const View& v, std::int64_t n) {
        return v.as<const std::byte>() + n * v.stride(0) * size_of(v.dtype);
    }

    /// Points [first, first + count) of samples [n, n + samples).
    void chunk(std::int64_t n, std::int64_t samples, std::int64_t first, std::int64_t count) {
        const std::int64_t entries = samples * count * taps_, keys = samples * elements_;
        const auto memory = [&](std::int64_t bytes) {
            return graph::scratch(p_.call, std::max<std::int64_t>(8, bytes));
        };
        Ref<Storage> named = memory(entries * 4);
        const Ref<Storage> weights = memory(entries * size_of(wide(gx_.dtype)));
        const bool far = reaches_far(h_) || reaches_far(gx_) || reaches_far(p_.g);
        const auto lists = points_.lists();
        gpu::Launch l = p_.start("entries", false, points_.sizes.rank());
        l.wide(far).buffer(from(p_.g, n)).buffer(named).buffer(weights).size(samples * count);
        l.size(p_.mode()).size(p_.padding()).size(p_.flags()).size(p_.g.stride(p_.g.rank() - 1));
        l.size(first).size(elements_).size(keys);
        l.layout(Dims{samples, count}, {Dims{p_.g.stride(0), 0}}).layout(points_.sizes, {lists[1]});
        p_.add_lattice(l);
        l.over(samples * count);
        const gpu::Buckets buckets =
            gpu::make_buckets(p_.call.backend, std::move(named), entries, keys, {p_.call.operation, p_.call.where});
        gather(n, samples, first, count, buckets, weights, far);
    }

    void gather(std::int64_t n, std::int64_t samples, std::int64_t first, std::int64_t count,
                const gpu::Buckets& buckets, const Ref<Storage>& weights, bool far) {
        const std::int64_t channels = gx_.size(1);
        const std::int64_t chunks = p_.channel_chunks(samples * elements_, channels, inside_);
        const std::int64_t threads = channels == 0 ? 0 : samples * chunks * elements_;
        Dims strides;
        for (std::int64_t i = 2; i < gx_.rank(); ++i) strides.push_back(gx_.stride(i));
        gpu::Launch l = p_.start("spread", false, points_.sizes.rank());
        l.constant("X", gx_.dtype).constant("Y", h_.dtype).constant("ADDS", first > 0).wide(far);
        l.constant("CHANNELS_LAST", inside_);
        l.buffer(from(h_, n)).buffer(buckets.first).buffer(buckets.entries).buffer(weights).buffer(from(gx_, n));
        l.size(threads).size(channels).size(p_.mode()).size(first).size(count).size(elements_);
        l.size(h_.stride(1)).size(gx_.stride(0)).size(gx_.stride(1));
        l.layout(three(samples, chunks, elements_, inside_), {Dims{h_.stride(0), 0, 0}});
        l.layout(points_.sizes, {points_.lists()[0]}).layout(p_.a.sizes, {strides}).over(threads);
    }

    const Problem& p_;
    const View &h_, &gx_;
    std::int64_t elements_, taps_;
    gpu::Walk points_;
    bool inside_ = false;
};

}  // namespace

void spread_on_gpu(const graph::Call& call, const Attributes& a, const View& h, const View& g, const View& gx) {
    if (gx.count() == 0) return;
    const Problem problem{call, a, gx, g};
    Spread(problem, h, gx).run();
}

void run_on_gpu(Role role, const graph::Call& call) {
    const auto& a = call.attrs<Attributes>();
    const auto in = [&](std::size_t i) -> const View& { return call.inputs[i]; };
    switch (role) {
        case Role::sample: return sample_on_gpu(call, a, in(0), in(1), call.outputs[0]);
        case Role::spread: return spread_on_gpu(call, a, in(0), in(1), call.outputs[0]);
        case Role::slope: return slope_on_gpu(call, a, in(0), in(1), in(2), call.outputs[0]);
    }
}

}  // namespace ops::grid
}  // namespace calor
