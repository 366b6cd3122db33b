#include "device/gpu/walk.h"

#include <algorithm>
#include <cstdlib>

namespace calor::gpu {

std::int64_t Walk::count() const {
    std::int64_t n = 1;
    for (const std::int64_t s : sizes) n *= s;
    return n;
}

std::vector<std::span<const std::int64_t>> Walk::lists() const {
    std::vector<std::span<const std::int64_t>> lists;
    for (const Strides& s : strides) lists.emplace_back(s);
    return lists;
}

Walk join_axes(const Shape& shape, std::span<const Strides* const> operands, const Strides& order) {
    Axes axes;
    for (std::int64_t a = 0; a < shape.rank(); ++a) {
        if (shape[a] != 1) axes.push_back(a);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [&](std::int64_t a, std::int64_t b) { return std::abs(order[a]) > std::abs(order[b]); });
    Walk walk;
    walk.strides.resize(operands.size());
    for (const std::int64_t a : axes) {
        bool joins = !walk.sizes.empty();
        for (std::size_t i = 0; i < operands.size() && joins; ++i) {
            joins = walk.strides[i].back() == (*operands[i])[a] * shape[a];
        }
        if (joins) {
            walk.sizes[walk.sizes.rank() - 1] *= shape[a];
        } else {
            walk.sizes.push_back(shape[a]);
        }
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (!joins) walk.strides[i].push_back(0);
            walk.strides[i][walk.sizes.rank() - 1] = (*operands[i])[a];
        }
    }
    return walk;
}

}  // namespace calor::gpu
