// The tables of kernels: one row a dtype.
#pragma once

#include <array>

#include "ops/reduce/reduction.h"

namespace calor::ops {

struct FloatRow {
    enum Entry : std::uint8_t {
        sum,
        mean,
        prod,
        max,
        min,
        argmax,
        argmin,
        logsumexp,
        var,
        std,
        norm_1,
        norm_2,
        norm_inf,
        norm_minus_inf,
        count
    };
};
using Row = std::array<ReduceKernel, FloatRow::count>;
const ReduceKernel* find_float_kernel(FloatRow::Entry entry, DType dtype);

struct IntegerRow {
    enum Entry : std::uint8_t { sum, prod, max, min, argmax, argmin, count_bytes, any, all, count };
};
using IntegerTable = std::array<ReduceKernel, IntegerRow::count>;
const ReduceKernel* find_integer_kernel(IntegerRow::Entry entry, DType dtype);

}  // namespace calor::ops
