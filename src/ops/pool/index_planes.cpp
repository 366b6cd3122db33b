#include "ops/pool/index_planes.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "device/cpu/parallel.h"
#include "ops/registry.h"
#include "ops/widen.h"

namespace calor::ops::pool {
namespace {

using graph::Call;
using graph::GradContext;
using graph::InferContext;
using graph::Specs;

struct PlaneAttributes {
    Dims spatial;  ///< of the result
    friend bool operator==(const PlaneAttributes&, const PlaneAttributes&) = default;
};

using Kind = PlaneKind;

Specs infer_planes(const InferContext& c) {
    Shape shape{c.inputs[0].shape()[0], c.inputs[0].shape()[1]};
    for (const std::int64_t s : c.attrs<PlaneAttributes>().spatial) shape.push_back(s);
    return {{shape, c.inputs[0].dtype()}};
}

/// A view as dense planes: itself, or a copy.
class DensePlanes {
public:
    DensePlanes(const Call& call, const View& v, DType dtype) : view_(v) {
        if (v.dtype == dtype && v.contiguous()) return;
        strides_ = contiguous_strides(*v.shape);
        copy_ = graph::scratch(call, v.count() * size_of(dtype));
        view_ = {copy_->data, dtype, v.shape, &strides_};
        convert_view(v, view_);
    }
    DensePlanes(const DensePlanes&) = delete;
    DensePlanes& operator=(const DensePlanes&) = delete;
    template <class T> const T* plane(std::int64_t i, std::int64_t count) const {
        return view_.as<const T>() + i * count;
    }

private:
    Strides strides_;
    Ref<Storage> copy_;
    View view_;
};

/// Reports the first index outside [0, size), if any.
void check_indices(const Call& c, const std::int64_t* indices, std::int64_t count, std::int64_t size) {
    std::atomic<std::int64_t> first{count};
    cpu::parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            if (indices[i] >= 0 && indices[i] < size) continue;
            std::int64_t before = first.load();
            while (i < before && !first.compare_exchange_weak(before, i)) {
            }
            return;
        }
    });
    if (first.load() < count) fail_range(c, indices[first.load()], first.load(), size);
}

template <class S> using Sum = std::conditional_t<std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>, float, S>;

/// One plane at a time; what is scratch is zero (or does not matter) between planes.
template <class S> class PlaneWorker {
public:
    PlaneWorker(std::int64_t positions, std::int64_t spatial) : positions_(positions), spatial_(spatial) {}

    void add(const S* values, const std::int64_t* at, S* to) {
        std::fill_n(to, spatial_, S());
        if constexpr (std::is_same_v<S, Sum<S>>) {
            for (std::int64_t p = 0; p < positions_; ++p) to[at[p]] = static_cast<S>(to[at[p]] + values[p]);
        } else {  // only the positions that are named are rounded
            sums_.resize(static_cast<std::size_t>(spatial_), 0);
            float* sums = sums_.data();
            for (std::int64_t p = 0; p < positions_; ++p) sums[at[p]] += values[p];
            for (std::int64_t p = 0; p < positions_; ++p) to[at[p]] = static_cast<S>(sums[at[p]]);
            for (std::int64_t p = 0; p < positions_; ++p) sums[at[p]] = 0;
        }
    }
    void set(const S* values, const std::int64_t* at, S* to) const {
        std::fill_n(to, spatial_, S());
        for (std::int64_t p = 0; p < positions_; ++p) to[at[p]] = values[p];
    }
    void gather(const S* from, const std::int64_t* at, S* to) const {
        for (std::int64_t p = 0; p < positions_; ++p) to[p] = from[at[p]];
    }
    /// Whether all indices of a plane lie in it.
    bool inside(const std::int64_t* at) const {
        std::int64_t any = 0;  // negative where one index or its distance from the end is
        for (std::int64_t p = 0; p < positions_; ++p) any |= at[p] | (spatial_ - 1 - at[p]);
        return any >= 0;
    }
    /// Number is an integer that counts the positions. Most planes name no position twice; which one does shows while
    /// it is gathered.
    template <class Number> void gather_last(const S* from, const std::int64_t* at, S* to, std::vector<Number>& last) {
        if (round_ == 0) {
            named_.assign(static_cast<std::size_t>(spatial_), 0);
            round_ = 1;
        }
        std::uint8_t* named = named_.data();
        const std::uint8_t round = round_++;  // after 255 comes 0
        unsigned twice = 0;
        for (std::int64_t p = 0; p < positions_; ++p) {
            const std::int64_t i = at[p];
            twice |= static_cast<unsigned>(named[i] == round);
            named[i] = round;
            to[p] = from[i];
        }
        if (twice == 0) return;
        last.resize(static_cast<std::size_t>(spatial_));
        for (std::int64_t p = 0; p < positions_; ++p) last[static_cast<std::size_t>(at[p])] = static_cast<Number>(p);
        for (std::int64_t p = 0; p < positions_; ++p) {
            to[p] = last[static_cast<std::size_t>(at[p])] == static_cast<Number>(p) ? from[at[p]] : S();
        }
    }

private:
    std::int64_t positions_, spatial_;
    std::vector<float> sums_;
    std::vector<std::uint8_t> named_;  ///< the round in which each position was named last
    std::uint8_t round_ = 0;
};

template <class S, Kind kind> void run_planes(const Call& c) {
    const View& y = c.outputs[0];
    if (y.count() == 0) {
        if (kind == Kind::set && c.inputs[1].count() > 0) {  // no index is inside
            const DensePlanes indices(c, c.inputs[1], i64);
            check_indices(c, indices.plane<std::int64_t>(0, 0), c.inputs[1].count(), 0);
        }
        return;
    }
    constexpr bool scatters = kind == Kind::add || kind == Kind::set;
    const std::int64_t planes = y.size(0) * y.size(1), positions = c.inputs[1].count() / planes;
    const std::int64_t spatial = (scatters ? y.count() : c.inputs[0].count()) / planes;
    const DensePlanes values(c, c.inputs[0], y.dtype), indices(c, c.inputs[1], i64);
    if (kind == Kind::set) check_indices(c, indices.plane<std::int64_t>(0, 0), planes * positions, spatial);
    std::atomic<bool> outside = false;
    cpu::parallel_for(planes, std::max<std::int64_t>(1, 16384 / (positions + spatial)),
                      [&](std::int64_t begin, std::int64_t end) {
                          PlaneWorker<S> worker(positions, spatial);
                          std::vector<std::int32_t> last;
                          std::vector<std::int64_t> wide_last;
                          for (std::int64_t i = begin; i < end; ++i) {
                              const std::int64_t* at = indices.plane<std::int64_t>(i, positions);
                              const S* from = values.plane<S>(i, scatters ? positions : spatial);
                              S* to = y.as<S>() + i * (scatters ? spatial : positions);
                              if constexpr (kind == Kind::add) {
                                  worker.add(from, at, to);
                              } else if constexpr (kind == Kind::set) {
                                  worker.set(from, at, to);
                              } else if constexpr (kind == Kind::gather) {
                                  worker.gather(from, at, to);
                              } else if (!worker.inside(at)) {
                                  outside = true;
                              } else if (positions < INT32_MAX) {
                                  worker.gather_last(from, at, to, last);
                              } else {
                                  worker.gather_last(from, at, to, wide_last);
                              }
                          }
                      });
    if (outside) check_indices(c, indices.plane<std::int64_t>(0, 0), planes * positions, spatial);
}

template <Kind kind> void run(const Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return run_planes<double, kind>(c);
        case f32: return run_planes<float, kind>(c);
        case f16: return run_planes<float16, kind>(c);
        case bf16: return run_planes<bfloat16, kind>(c);
        case i64:
        case u64: return run_planes<std::uint64_t, kind>(c);
        case i32:
        case u32: return run_planes<std::uint32_t, kind>(c);
        case i16:
        case u16: return run_planes<std::uint16_t, kind>(c);
        default: return run_planes<std::uint8_t, kind>(c);
    }
}

template <Kind kind> std::span<const graph::Implementation> implementations(DeviceKind) {
    static const graph::Implementation list[] = {{.name = "reference", .run = run<kind>}};
    return list;
}

template <Kind kind> std::span<const graph::Implementation> gpu_implementations() {
    static const graph::Implementation list[] = {
        {.name = "plane_buckets", .run = [](const Call& c) { planes_on_gpu(kind, c); }}};
    return list;
}

template <Kind kind> void gradient(const GradContext& c);

template <Kind kind> const graph::Operation& operation() {
    static constexpr const char* names[] = {"max_pool_boxes_grad", "max_unpool", "max_pool_boxes_take",
                                            "max_unpool_grad"};
    static const graph::Operation op{.name = names[static_cast<std::size_t>(kind)],
                                     .traits = graph::indexing | graph::linear,
                                     .infer = infer_planes,
                                     .gradient = gradient<kind>,
                                     .implementations = implementations<kind>,
                                     .gpu_implementations = gpu_implementations<kind>};
    return op;
}

template <Kind kind>
Tensor record(const Tensor& values, const Tensor& indices, const Dims& spatial, const Where& where) {
    return graph::record(operation<kind>(), PlaneAttributes{spatial}, {values, indices}, where);
}

template <Kind kind> void gradient(const GradContext& c) {
    if (!c.needs[0]) return;
    constexpr Kind adjoint = kind == Kind::add      ? Kind::gather
                             : kind == Kind::gather ? Kind::add
                             : kind == Kind::set    ? Kind::gather_last
                                                    : Kind::set;
    const Shape& shape = c.inputs[0].shape();
    const Dims spatial(std::span(shape.data() + 2, shape.size() - 2));
    c.grads[0] = record<adjoint>(c.cotangent(), c.inputs[1], spatial, c.where);
}

}  // namespace

void fail_range(const Call& c, std::int64_t index, std::int64_t position, std::int64_t size) {
    fail("index/range", c.operation, c.where,
         {{"index", index}, {"position", position}, {"axis", 2}, {"size", size}, {"low", 0}, {"high", size - 1}});
}

Tensor add_to_planes(const Tensor& values, const Tensor& indices, const Dims& sizes, const Where& where) {
    return record<Kind::add>(values, indices, sizes, where);
}
Tensor set_in_planes(const Tensor& values, const Tensor& indices, const Dims& sizes, const Where& where) {
    return record<Kind::set>(values, indices, sizes, where);
}

}  // namespace calor::ops::pool

namespace calor::ops {

Descriptors index_plane_descriptors() {
    using Kind = pool::PlaneKind;
    return {&pool::operation<Kind::add>(), &pool::operation<Kind::set>(), &pool::operation<Kind::gather>(),
            &pool::operation<Kind::gather_last>()};
}

}  // namespace calor::ops
