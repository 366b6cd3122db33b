// What the GPU kernels of resample share: the axes in the order of the result's memory, and the tables on the device.
#pragma once

#include <vector>

#include "ops/resample/resample.h"
#include "ops/spatial_gpu.h"

namespace calor::ops::resample {

/// An axis in the order of the result's memory.
struct Axis {
    std::int64_t in = 1, out = 1, stride = 0;
    const Table* table = nullptr;
    std::int64_t logical = 0;  ///< number among the tensor's axes (of the last one that was joined)
};

/// Axes of x and y, joined where no table is and neither side has a gap. The result is dense in this order.
std::vector<Axis> axes_of(const graph::Call& call);

/// The numbers of some tables as the kernels take them: `ints` starts with four numbers a table (where its starts,
/// indices, weights and divisors begin, the last -1 for none); weights and divisors are f64 for f64, i32 in fixed
/// point, else f32.
struct TablePlaces {
    std::int32_t start[3] = {}, index[3] = {}, weight[3] = {}, divisor[3] = {};
};
struct DeviceTables {
    Ref<Storage> ints, weights;
    std::vector<std::int64_t> indices;  ///< where a table's indices begin in `ints`
    TablePlaces places;                 ///< the four numbers of the first tables
    double divisor = 1;                 ///< of all outputs
};
enum class Weights : std::uint8_t { f32, f64, fixed_point };
/// Those that were used last stay on the device.
DeviceTables tables_on_device(const graph::Call& call, const std::vector<const Table*>& tables, Weights weights);

}  // namespace calor::ops::resample
