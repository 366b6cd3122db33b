#include "ops/support.h"

#include <algorithm>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::ops {

void check_defined(std::string_view operation, const Tensor& t, std::string_view argument, const Where& where) {
    if (!t.defined()) fail("tensor/undefined", operation, where, {{"argument", argument}});
}

std::int64_t normalize_axis(std::string_view operation, std::int64_t axis, std::int64_t rank, const Where& where) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
        fail("axis/range", operation, where, {{"axis", axis}, {"rank", rank}, {"low", -rank}, {"high", rank - 1}});
    }
    return at;
}

Axes normalize_axes(std::string_view operation, const Axes& axes, std::int64_t rank, const Where& where) {
    Axes all;
    if (axes.empty()) {
        for (std::int64_t a = 0; a < rank; ++a) all.push_back(a);
        return all;
    }
    for (const std::int64_t a : axes) {
        const std::int64_t at = normalize_axis(operation, a, rank, where);
        if (std::ranges::find(all, at) != all.end()) fail("axis/duplicate", operation, where, {{"axis", a}, {"axes", axes}});
        all.push_back(at);
    }
    std::ranges::sort(all);
    return all;
}

Dims per_axis(std::string_view operation, std::string_view option, const PerAxis& values, std::int64_t count,
              std::int64_t otherwise, const Where& where) {
    if (!values.given()) return Dims(count, otherwise);
    if (values.scalar()) return Dims(count, values.values()[0]);
    if (values.values().rank() != count) {
        fail("value/count", operation, where,
             {{"option", option}, {"got", values.values().rank()}, {"expected", count}});
    }
    return values.values();
}

void copy_view(const View& from, const View& to) {
    const std::int64_t rank = from.rank(), size = size_of(from.dtype), count = from.count();
    if (count == 0) return;
    const std::int64_t inner = rank == 0 ? 1 : from.size(rank - 1);
    const std::int64_t rows = count / inner;
    const std::int64_t from_step = rank == 0 ? 0 : from.stride(rank - 1), to_step = rank == 0 ? 1 : to.stride(rank - 1);
    cpu::parallel_for(rows, std::max<std::int64_t>(1, 16384 / inner), [&](std::int64_t begin, std::int64_t end) {
        Dims index(std::max<std::int64_t>(rank - 1, 0), 0);
        std::int64_t rest = begin, source = 0, target = 0;
        for (std::int64_t a = rank - 2; a >= 0; --a) {
            index[a] = rest % from.size(a);
            rest /= from.size(a);
            source += index[a] * from.stride(a);
            target += index[a] * to.stride(a);
        }
        for (std::int64_t row = begin; row < end; ++row) {
            const auto* in = from.as<const std::byte>() + source * size;
            auto* out = to.as<std::byte>() + target * size;
            if (to_step == 1) {
                cpu::gather(out, in, from_step, size, inner);
            } else if (from_step == 1) {
                cpu::scatter(out, to_step, in, size, inner);
            } else {
                for (std::int64_t i = 0; i < inner; ++i) {
                    cpu::gather(out + i * to_step * size, in + i * from_step * size, 1, size, 1);
                }
            }
            for (std::int64_t a = rank - 2; a >= 0; --a) {
                source += from.stride(a);
                target += to.stride(a);
                if (++index[a] < from.size(a)) break;
                source -= from.stride(a) * from.size(a);
                target -= to.stride(a) * from.size(a);
                index[a] = 0;
            }
        }
    });
}

}  // namespace calor::ops
