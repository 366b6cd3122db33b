// Writing by indices on GPUs. scatter: the largest position along the axis that writes to a place wins; a maximum of
// integers does not depend on the order of its arguments. scatter_add and index_add: the entries are sorted by
// destination and summed in runs.
#include <algorithm>
#include <bit>

#include "ops/index/index_gpu.h"
#include "ops/radix.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile index_index, index_add;
}

namespace index {
namespace {

using graph::Call;

/// Which position along the axis writes each place last.
class LastWriters {
public:
    LastWriters(const Call& c, const Shape& target, const View& indices, std::int64_t axis)
        : call_(c),
          indices_(indices),
          axis_(axis),
          dense_(contiguous_strides(target)),
          size_(target[axis]),
          to_(without(dense_, axis)),
          place_(indices.rank(), 0) {
        place_[axis] = 1;
        const std::int64_t bytes = checked_multiply(numel(target), 4, c.where);
        writers_ = graph::scratch(c, bytes);
        c.backend.gpu()->fill(writers_->data, 0, bytes);
        const gpu::Walk walk = row_major(*indices.shape, {&to_, indices.strides, &place_});
        start("mark", walk)
            .buffer(indices)
            .buffer(writers_)
            .size(indices.count())
            .value(size_)
            .size(dense_[axis])
            .layout(walk.sizes, walk.lists())
            .wide(numel(target) >= (std::int64_t{1} << 30))
            .over(indices.count());
    }
    void write(const View& values, const View& y) const {
        const gpu::Walk walk = row_major(*indices_.shape, {&to_, indices_.strides, &place_, values.strides});
        start("write_last", walk)
            .constant("E", carrier(y.dtype))
            .buffer(values)
            .buffer(indices_)
            .buffer(writers_)
            .buffer(y)
            .size(indices_.count())
            .value(size_)
            .size(dense_[axis_])
            .layout(walk.sizes, walk.lists())
            .over(indices_.count());
    }
    void read(const View& x, const View& y) const {
        const Strides from = without(*x.strides, axis_);
        const gpu::Walk walk = row_major(*indices_.shape, {&to_, indices_.strides, &place_, &from});
        start("read_last", walk)
            .constant("E", carrier(y.dtype))
            .buffer(x)
            .buffer(indices_)
            .buffer(writers_)
            .buffer(y)
            .size(indices_.count())
            .value(size_)
            .size(dense_[axis_])
            .size(x.stride(axis_))
            .layout(walk.sizes, walk.lists())
            .over(indices_.count());
    }

private:
    gpu::Launch start(const char* entry, const gpu::Walk& walk) const {
        gpu::Launch l = ops::launch(call_, kernels::index_index, entry);
        l.constant("PACKED", 0).constant("AT", indices_.dtype).constant("RANK", walk.sizes.rank());
        return l;
    }
    const Call& call_;
    const View& indices_;
    std::int64_t axis_;
    Strides dense_;
    std::int64_t size_;
    Strides to_, place_;
    Ref<Storage> writers_;
};

void run_scatter(const Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    const View &x = c.inputs[0], &indices = c.inputs[1], &y = c.outputs[0];
    RangeCheck check(c, indices, axis, x.size(axis));
    ops::copy_on_gpu(c, x, y);
    if (indices.count() > 0 && y.count() > 0) LastWriters(c, *y.shape, indices, axis).write(c.inputs[2], y);
    check.finish();
}

void run_scatter_values(const Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    const View &cotangent = c.inputs[0], &indices = c.inputs[1];
    RangeCheck check(c, indices, axis, cotangent.size(axis));
    if (indices.count() > 0 && cotangent.count() > 0) {
        LastWriters(c, *cotangent.shape, indices, axis).read(cotangent, c.outputs[0]);
    }
    check.finish();
}

/// Integers wrap, signed or not.
DType summed_as(DType dtype) { return is_floating(dtype) ? dtype : carrier(dtype); }

/// y, into which entries of `values` are added by destination.
struct Sums {
    Sums(const Call& c, const View& v, const View& result) : call(c), values(v), y(result) {}

    const Call& call;
    const View &values, &y;
    std::int64_t entries = 0, columns = 1;
    std::uint64_t nowhere = 0;  ///< the first number that is no destination
    bool rows = false;
    std::int64_t from_along = 0, to_along = 0;  ///< of rows
    gpu::Walk walk;                             ///< of an entry in the values, or of the columns in values and y

    void run(const View& indices, const gpu::Walk& destinations, std::int64_t size, std::int64_t along,
             std::int64_t skip) {
        if (entries == 0 || columns == 0 || nowhere == 0) return;
        ops::KeyLines k;
        k.length = entries;
        k.wide_keys = nowhere >= (std::uint64_t{1} << 32);
        k.wide_places = entries >= (std::int64_t{1} << 32);
        k.bits = std::bit_width(nowhere);
        k.keys = k.allocate_keys(call);
        gpu::Launch keys = ops::launch(call, kernels::index_add, "destinations");
        keys.constant("AT", indices.dtype).constant("KEY", k.key()).constant("ROWS", 0);
        keys.constant("RANK", destinations.sizes.rank()).buffer(indices).buffer(k.keys).size(entries).value(size);
        keys.size(along).value(skip);
        number(keys, k);
        keys.layout(destinations.sizes, destinations.lists()).wide(nowhere >= (1U << 30U)).over(entries);
        ops::radix_sort(call, k);
        add(k);
    }

private:
    void number(gpu::Launch& launch, const ops::KeyLines& k) const {
        k.wide_keys ? launch.value(nowhere) : launch.value(static_cast<std::uint32_t>(nowhere));
    }
    void add(const ops::KeyLines& k) const {
        const std::int64_t chunk = columns >= 64 ? 64 : 32, chunks = (entries + chunk - 1) / chunk;
        const std::int64_t work = checked_multiply(chunks, columns, call.where);
        const auto parts = graph::scratch(call, checked_multiply(2 * work, size_of(compute_type(y.dtype)), call.where));
        for (const bool joined : {false, true}) {
            if (joined && chunks == 1) break;
            gpu::Launch l = ops::launch(call, kernels::index_add, joined ? "add_joined" : "add_chunks");
            l.constant("T", summed_as(y.dtype)).constant("KEY", k.key()).constant("ROWS", rows);
            l.constant("RANK", walk.sizes.rank()).buffer(k.keys);
            if (!joined) l.constant("PLACE", k.place()).buffer(k.places).buffer(values);
            l.buffer(y).buffer(parts).size(entries).size(chunk).size(columns).size(work);
            number(l, k);
            l.size(from_along).size(to_along).layout(walk.sizes, walk.lists());
            l.wide(2 * work >= (std::int64_t{1} << 30)).over(work);
        }
    }
};

void run_scatter_add(const Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    const View &x = c.inputs[0], &indices = c.inputs[1], &values = c.inputs[2], &y = c.outputs[0];
    RangeCheck check(c, indices, axis, x.size(axis));
    ops::copy_on_gpu(c, x, y);
    const Strides to = without(*y.strides, axis);
    Sums sums(c, values, y);
    sums.entries = indices.count();
    sums.nowhere = static_cast<std::uint64_t>(y.count());
    sums.walk = row_major(*indices.shape, {values.strides});
    sums.run(indices, row_major(*indices.shape, {&to, indices.strides}), x.size(axis), y.stride(axis), -1);
    check.finish();
}

const char* single_why_not(const Call& c) {
    return c.inputs[1].size(c.attrs<GatherAttributes>().axis) == 1 ? nullptr : "the axis has more than one index";
}
void run_single(const Call& c) {
    const std::int64_t axis = c.attrs<GatherAttributes>().axis;
    const View &x = c.inputs[0], &indices = c.inputs[1], &values = c.inputs[2], &y = c.outputs[0];
    RangeCheck check(c, indices, axis, x.size(axis));
    ops::copy_on_gpu(c, x, y);
    const Strides to = without(*y.strides, axis);
    const gpu::Walk walk = row_major(*indices.shape, {&to, indices.strides, values.strides});
    ops::launch(c, kernels::index_add, "add_single")
        .constant("T", summed_as(y.dtype))
        .constant("AT", indices.dtype)
        .constant("ROWS", 0)
        .constant("RANK", walk.sizes.rank())
        .buffer(values)
        .buffer(indices)
        .buffer(y)
        .size(indices.count())
        .value(x.size(axis))
        .size(y.stride(axis))
        .layout(walk.sizes, walk.lists())
        .over(y.count() == 0 ? 0 : indices.count());
    check.finish();
}

void run_index_add(const Call& c) {
    const auto& a = c.attrs<SelectAttributes>();
    const View &x = c.inputs[0], &indices = c.inputs[1], &values = c.inputs[2], &y = c.outputs[0];
    RangeCheck check(c, indices, a.axis, x.size(a.axis));
    ops::copy_on_gpu(c, x, y);
    Shape others = *y.shape;
    Strides from = *values.strides, to = *y.strides;
    for (Dims* list : {&others, &from, &to}) list->erase(a.axis);
    Sums sums(c, values, y);
    sums.rows = true;
    sums.entries = indices.count();
    sums.columns = numel(others);
    sums.nowhere = static_cast<std::uint64_t>(x.size(a.axis));
    sums.from_along = values.stride(a.axis);
    sums.to_along = y.stride(a.axis);
    sums.walk = row_major(others, {&from, &to});
    const Strides none(1, 0);
    sums.run(indices, row_major(*indices.shape, {&none, indices.strides}), x.size(a.axis), 1, a.skip);
    check.finish();
}

const graph::Implementation scatter_list[] = {{.name = "reference", .run = run_scatter}};
const graph::Implementation scatter_values_list[] = {{.name = "reference", .run = run_scatter_values}};
const graph::Implementation scatter_add_list[] = {{.name = "single", .why_not = single_why_not, .run = run_single},
                                                  {.name = "reference", .run = run_scatter_add}};
const graph::Implementation index_add_list[] = {{.name = "reference", .run = run_index_add}};

}  // namespace

std::span<const graph::Implementation> scatter_on_gpu() { return scatter_list; }
std::span<const graph::Implementation> scatter_values_on_gpu() { return scatter_values_list; }
std::span<const graph::Implementation> scatter_add_on_gpu() { return scatter_add_list; }
std::span<const graph::Implementation> index_add_on_gpu() { return index_add_list; }

}  // namespace index
}  // namespace calor
