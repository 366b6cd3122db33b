// Checks of index tensors.
#include "ops/index/indices.h"

#include <atomic>

#include "device/cpu/parallel.h"

namespace calor::index {

Tensor checked_dtype(std::string_view operation, const Tensor& indices, const Where& where) {
    ops::check_defined(operation, indices, "the index tensor", where);
    const DType dtype = indices.dtype();
    if (!is_integer(dtype)) {
        fail("dtype/unsupported", operation, where,
             {{"argument", "the index tensor"}, {"got", dtype}, {"expected", "an integer dtype"}}, describe(indices));
    }
    return dtype == i32 || dtype == i64 ? indices : indices.to(i64, where);
}

void check_same_dtype(std::string_view operation, const Tensor& x, const Tensor& values, const Where& where) {
    if (values.dtype() == x.dtype()) return;
    fail("dtype/mismatch", operation, where,
         {{"argument", "the tensor of values"},
          {"got", values.dtype()},
          {"other", "the first tensor"},
          {"expected", x.dtype()}});
}

void check_addable(std::string_view operation, const Tensor& x, const Where& where) {
    if (x.dtype() != boolean) return;
    fail("dtype/unsupported", operation, where,
         {{"argument", "the tensor"}, {"got", x.dtype()}, {"expected", "a dtype with an addition"}});
}

namespace {

template <class I> bool any_outside(const I* row, std::int64_t stride, std::int64_t n, std::int64_t size) {
    bool outside = false;
    for (std::int64_t i = 0; i < n; ++i) {
        outside |=
            static_cast<std::uint64_t>(static_cast<std::int64_t>(row[i * stride])) >= static_cast<std::uint64_t>(size);
    }
    return outside;
}

template <class I> void check_as(const graph::Call& c, const View& indices, std::int64_t axis, std::int64_t size) {
    const std::int64_t count = indices.count(), rank = indices.rank();
    if (count == 0) return;
    const std::int64_t inner = rank == 0 ? 1 : indices.size(rank - 1),
                       stride = rank == 0 ? 1 : indices.stride(rank - 1);
    std::atomic<bool> outside{false};
    cpu::parallel_for(count / inner, std::max<std::int64_t>(1, 65536 / inner),
                      [&](std::int64_t begin, std::int64_t end) {
                          Rows<1> rows(*indices.shape, {indices.strides});
                          rows.seek(begin);
                          for (std::int64_t row = begin; row < end; ++row, rows.next()) {
                              if (any_outside(indices.as<I>() + rows.offset[0], stride, inner, size))
                                  outside.store(true);
                          }
                      });
    if (!outside.load()) return;
    Rows<1> rows(*indices.shape, {indices.strides});
    rows.seek(0);
    for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::int64_t>(indices.as<I>()[rows.offset[0] + i % inner * stride]);
        if (at < 0 || at >= size) {
            fail("index/range", c.operation, c.where,
                 {{"index", at}, {"position", i}, {"axis", axis}, {"size", size}, {"low", 0}, {"high", size - 1}});
        }
        if (i % inner == inner - 1) rows.next();
    }
}

}  // namespace

void check_range(const graph::Call& c, const View& indices, std::int64_t axis, std::int64_t size) {
    indices.dtype == i32 ? check_as<std::int32_t>(c, indices, axis, size)
                         : check_as<std::int64_t>(c, indices, axis, size);
}

}  // namespace calor::index
