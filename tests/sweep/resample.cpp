// resample.h and grid.h.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

constexpr std::pair<Interpolation, const char*> modes[] = {
    {Interpolation::nearest, "nearest"},   {Interpolation::nearest_exact, "nearest_exact"},
    {Interpolation::linear, "linear"},     {Interpolation::cubic, "cubic"},
    {Interpolation::lanczos3, "lanczos3"}, {Interpolation::area, "area"},
    {Interpolation::box, "box"},           {Interpolation::coverage, "coverage"}};

Table sizes() {
    const auto must = [](std::vector<Must> more) {
        for (const char* label : {"t0 rank 0", "t0 rank 1", "t0 rank 2"}) more.push_back({label, "resample/rank"});
        more.push_back({"t0 undefined", "tensor/undefined"});
        more.push_back({"l0 longer", "value/count"});
        for (const char* label : {"l0[0] = 0", "l0[0] = -", "l0[1] = -"}) more.push_back({label, "resample/size"});
        return more;
    };
    Table rows;
    for (const auto& [mode, name] : modes) {
        rows.push_back(
            {"interpolate",
             name,
             {{"NCHW"}},
             {},
             {},
             {{4, 7}},
             [mode = mode](A a) -> R { return {interpolate(a.tensors[0], {.size = a.lists[0], .mode = mode})}; },
             must({})});
        rows.push_back(
            {"interpolate", std::string(name) + " scale", {{"NCHW"}}, {}, {1.5, 0.6}, {}, [mode = mode](A a) -> R {
                 return {interpolate(a.tensors[0], {.scale = {a.reals[0], a.reals[1]}, .mode = mode})};
             }});
    }
    rows.push_back(
        {"interpolate", "antialias", {{"NCHW"}}, {}, {-0.5}, {{4, 3}}, [](A a) -> R {
             return {interpolate(
                 a.tensors[0],
                 {.size = a.lists[0], .mode = Interpolation::cubic, .antialias = true, .cubic_a = a.reals[0]})};
         }});
    rows.push_back({"resize",
                    "",
                    {{"NCH"}},
                    {},
                    {},
                    {{1, 2}, {3, 4}},
                    [](A a) -> R { return {resize(a.tensors[0], {.axes = a.lists[0], .size = a.lists[1]})}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"l0[0] = 2^", "axis/range"},
                     {"l0[0] = m", "axis/range"},
                     {"l0[0] = 2", "axis/duplicate"}}});
    rows.back().must.pop_back();
    rows.push_back({"resize", "crop", {{"NCHW"}}, {}, {0.1, 0.9, 7}, {{3, 2}}, [](A a) -> R {
                        return {resize(a.tensors[0], {.axes = {2, 3},
                                                      .size = a.lists[0],
                                                      .coordinates = Coordinates::tf_crop_and_resize,
                                                      .crop_from = a.reals[0],
                                                      .crop_to = a.reals[1],
                                                      .extrapolation = a.reals[2]})};
                    }});
    rows.push_back({"adaptive_avg_pool",
                    "",
                    {{"NCHW"}},
                    {},
                    {},
                    {{3, 2}},
                    [](A a) -> R { return {adaptive_avg_pool(a.tensors[0], {.size = a.lists[0]})}; },
                    must({{"t0 dtype i", "dtype/unsupported"}})});
    return rows;
}

Table grids() {
    Table rows;
    const std::pair<GridMode, const char*> grid_modes[] = {
        {GridMode::nearest, "nearest"}, {GridMode::linear, "linear"}, {GridMode::cubic, "cubic"}};
    for (const auto& [mode, name] : grid_modes) {
        for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
            const GridSampleOptions options{.mode = mode, .padding = padding};
            rows.push_back({"grid_sample",
                            name + std::to_string(static_cast<int>(padding)),
                            {{"NCHW"}, {"NPQ2"}},
                            {},
                            {},
                            {},
                            [options](A a) -> R { return {grid_sample(a.tensors[0], a.tensors[1], options)}; },
                            {{"t0 undefined", "tensor/undefined"},
                             {"t1 undefined", "tensor/undefined"},
                             {"t0 rank 0", "grid/rank"},
                             {"t1 rank 1", "grid/rank"},
                             {"t1 axis 3 longer", "grid/coordinates"},
                             {"t1 axis 0 longer", "grid/batch"},
                             {"empty H", "grid/empty"},
                             {"t0 dtype i", "dtype/unsupported"},
                             {"t1 dtype i", "dtype/unsupported"}}});
        }
    }
    rows.push_back({"grid_sample", "places", {{"NCHW"}}, {}, {0.5, -0.5}, {}, [](A a) -> R {
                        const Tensor place = tensor(std::vector<double>{a.reals[0], a.reals[1]}, {1, 1, 1, 2}).to(f32);
                        const std::int64_t n =
                            a.tensors[0].defined() && a.tensors[0].rank() > 0 ? a.tensors[0].size(0) : 1;
                        return {grid_sample(a.tensors[0], expand(place, {n, 1, 1, 2}))};
                    }});
    rows.push_back({"affine_grid",
                    "",
                    {{"N23"}},
                    {},
                    {},
                    {{4, 3}},
                    [](A a) -> R { return {affine_grid(a.tensors[0], a.lists[0])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"t0 rank 0", "grid/theta"},
                     {"t0 axis 2 longer", "grid/theta"},
                     {"t0 dtype i", "dtype/unsupported"},
                     {"l0[0] = -", "shape/negative"}}});
    return rows;
}

}  // namespace

Table resample_rows() {
    Table rows = sizes();
    for (Row& row : rows) row.shows = false;  // an empty size is none at all
    for (Row& row : grids()) rows.push_back(std::move(row));
    return rows;
}

}  // namespace calor::testing::sweep
