// Problems for the tests of sampling: random shapes and options, and grids whose places keep away from kinks.
#pragma once

#include <cmath>
#include <random>

#include "calor/calor.h"
#include "relaid.h"

namespace calor::testing {

struct GridProblem {
    Shape x, grid;
    GridSampleOptions options;
};

class Draw {
public:
    explicit Draw(std::uint32_t seed) : engine_(seed) {}
    std::int64_t operator()(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint32_t>(high - low + 1));
    }
    double unit() { return static_cast<double>(engine_()) / 4294967296.0; }

private:
    std::mt19937 engine_;
};

inline GridProblem grid_problem(std::int64_t rank, std::uint32_t seed) {
    Draw draw(seed);
    GridProblem p;
    constexpr std::int64_t channels[] = {1, 2, 3, 4, 5, 8, 11, 16, 24};
    p.x = {draw(1, 3), channels[draw(0, 8)]};
    p.grid = {p.x[0]};
    for (std::int64_t a = 0; a < rank; ++a) p.x.push_back(draw(1, rank > 3 ? 3 : 6));
    const std::int64_t positions = draw(0, 3) == 0 ? draw(1, 3) : rank;
    for (std::int64_t a = 0; a < positions; ++a) p.grid.push_back(draw(1, rank > 3 ? 2 : rank == 1 ? 90 : 5));
    p.grid.push_back(rank);
    p.options = {.mode = static_cast<GridMode>(draw(0, rank > 4 ? 1 : 2)),
                 .padding = static_cast<GridPadding>(draw(0, 2)),
                 .align_corners = draw(0, 1) == 1};
    return p;
}

/// Places from 2 elements before the data to 2 behind it, at least 0.1 elements from whole and half ones.
inline Tensor smooth_grid(const GridProblem& p, std::uint32_t seed) {
    Draw draw(seed);
    std::vector<double> values(static_cast<std::size_t>(numel(p.grid)));
    const std::int64_t rank = p.grid.back();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::int64_t size = p.x[p.x.rank() - 1 - static_cast<std::int64_t>(i) % rank];
        const double u =
            static_cast<double>(draw(-2, size + 1)) + 0.1 + 0.3 * draw.unit() + (draw(0, 1) == 1 ? 0.5 : 0);
        const auto n = static_cast<double>(size);
        values[i] = p.options.align_corners ? (size > 1 ? 2 * u / (n - 1) - 1 : u) : (2 * u + 1) / n - 1;
    }
    return tensor(values, p.grid);
}

}  // namespace calor::testing
