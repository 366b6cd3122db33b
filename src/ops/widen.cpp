#include "ops/widen.h"

#include <algorithm>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::ops {
namespace {

constexpr std::int64_t tile = 512;

/// n elements at `in` with a stride to `out` with another.
void convert_row(const View& from, const std::byte* in, std::int64_t from_step, const View& to, std::byte* out,
                 std::int64_t to_step, std::int64_t n, TileKernel kernel) {
    alignas(64) std::byte before[tile * 8], after[tile * 8];
    const std::int64_t from_size = size_of(from.dtype), to_size = size_of(to.dtype);
    for (std::int64_t i = 0; i < n; i += tile) {
        const std::int64_t count = std::min(tile, n - i);
        const void* source = in + i * from_step * from_size;
        if (from_step != 1) {
            cpu::gather(before, source, from_step, from_size, count);
            source = before;
        }
        std::byte* target = out + i * to_step * to_size;
        kernel(&source, to_step == 1 ? target : after, count, nullptr);
        if (to_step != 1) cpu::scatter(target, to_step, after, to_size, count);
    }
}

}  // namespace

DType wide_type(DType dtype) {
    if (is_floating(dtype)) return compute_type(dtype);
    return dtype == i64 || dtype == u64 ? u64 : u32;
}

void convert_view(const View& from, const View& to) {
    if (from.dtype == to.dtype) return copy_view(from, to);
    const std::int64_t rank = from.rank(), count = from.count();
    if (count == 0) return;
    const auto kernel = cpu::find_convert(from.dtype, to.dtype);
    const std::int64_t inner = rank == 0 ? 1 : from.size(rank - 1);
    const std::int64_t from_step = rank == 0 ? 1 : from.stride(rank - 1), to_step = rank == 0 ? 1 : to.stride(rank - 1);
    cpu::parallel_for(count / inner, std::max<std::int64_t>(1, 8192 / inner),
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t row = begin; row < end; ++row) {
                              std::int64_t rest = row, source = 0, target = 0;
                              for (std::int64_t a = rank - 2; a >= 0; --a) {
                                  const std::int64_t at = rest % from.size(a);
                                  rest /= from.size(a);
                                  source += at * from.stride(a);
                                  target += at * to.stride(a);
                              }
                              convert_row(from, from.as<const std::byte>() + source * size_of(from.dtype), from_step,
                                          to, to.as<std::byte>() + target * size_of(to.dtype), to_step, inner, kernel);
                          }
                      });
}

Widened::Widened(const graph::Call& call, const View& view, DType wide) : view_(view) {
    if (size_of(wide) == size_of(view.dtype)) return;
    shape_ = *view.shape;
    for (std::int64_t a = 0; a < view.rank(); ++a) {
        if (view.stride(a) == 0) shape_[a] = std::min<std::int64_t>(shape_[a], 1);
    }
    strides_ = contiguous_strides(shape_);
    copy_ = graph::scratch(call, numel(shape_) * size_of(wide));
    View source = view, target{copy_->data, wide, &shape_, &strides_};
    source.shape = &shape_;
    convert_view(source, target);
    for (std::int64_t a = 0; a < view.rank(); ++a) {
        if (view.stride(a) == 0) strides_[a] = 0;
    }
    view_ = target;
    view_.shape = view.shape;
}

WidenedVector::WidenedVector(const graph::Call& call, const View* vector) {
    if (!vector) return;
    if (vector->contiguous() && size_of(wide_type(vector->dtype)) == size_of(vector->dtype)) {
        data_ = vector->data;
        return;
    }
    const Strides dense{1};
    DType wide = wide_type(vector->dtype);
    if (size_of(wide) == size_of(vector->dtype)) wide = vector->dtype;
    copy_ = graph::scratch(call, vector->count() * size_of(wide));
    convert_view(*vector, {copy_->data, wide, vector->shape, &dense});
    data_ = copy_->data;
}

WidenedResult::WidenedResult(const graph::Call& call, const View& view, DType wide) : result_(view), view_(view) {
    if (size_of(wide) == size_of(view.dtype)) return;
    copy_ = graph::scratch(call, view.count() * size_of(wide));
    view_.data = copy_->data;
    view_.dtype = wide;
}

void WidenedResult::narrow() const {
    if (!copy_) return;
    const auto kernel = cpu::find_convert(view_.dtype, result_.dtype);  // the same dense layout on both sides
    const std::int64_t from_size = size_of(view_.dtype), to_size = size_of(result_.dtype);
    cpu::parallel_for(result_.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
        const void* from = view_.as<const std::byte>() + begin * from_size;
        kernel(&from, result_.as<std::byte>() + begin * to_size, end - begin, nullptr);
    });
}

}  // namespace calor::ops
