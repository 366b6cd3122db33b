// From a reduction and a dtype to its kernel.
#include <cmath>

#include "ops/reduce/cpu/tables.h"

namespace calor::ops {
namespace {

FloatRow::Entry float_entry(Reduction kind, double parameter) {
    switch (kind) {
        case Reduction::sum: return FloatRow::sum;
        case Reduction::mean: return FloatRow::mean;
        case Reduction::prod: return FloatRow::prod;
        case Reduction::max: return FloatRow::max;
        case Reduction::min: return FloatRow::min;
        case Reduction::argmax: return FloatRow::argmax;
        case Reduction::argmin: return FloatRow::argmin;
        case Reduction::logsumexp: return FloatRow::logsumexp;
        case Reduction::var: return FloatRow::var;
        case Reduction::std: return FloatRow::std;
        case Reduction::norm:
            if (parameter == 1) return FloatRow::norm_1;
            if (parameter == 2) return FloatRow::norm_2;
            return parameter > 0 ? FloatRow::norm_inf : FloatRow::norm_minus_inf;
        case Reduction::any:
        case Reduction::all: break;
    }
    return FloatRow::count;
}

IntegerRow::Entry integer_entry(Reduction kind, DType dtype) {
    switch (kind) {
        case Reduction::sum: return dtype == boolean ? IntegerRow::count_bytes : IntegerRow::sum;
        case Reduction::prod: return IntegerRow::prod;
        case Reduction::max: return IntegerRow::max;
        case Reduction::min: return IntegerRow::min;
        case Reduction::argmax: return IntegerRow::argmax;
        case Reduction::argmin: return IntegerRow::argmin;
        case Reduction::any: return IntegerRow::any;
        case Reduction::all: return IntegerRow::all;
        default: break;
    }
    return IntegerRow::count;
}

}  // namespace

const ReduceKernel* find_reduce_kernel(Reduction kind, DType dtype, double parameter) {
    const ReduceKernel* kernel = nullptr;
    if (is_floating(dtype)) {
        const FloatRow::Entry entry = float_entry(kind, parameter);
        if (entry != FloatRow::count) kernel = find_float_kernel(entry, dtype);
    } else {
        const IntegerRow::Entry entry = integer_entry(kind, dtype);
        if (entry != IntegerRow::count) kernel = find_integer_kernel(entry, dtype == boolean ? u8 : dtype);
    }
    return kernel && kernel->init ? kernel : nullptr;
}

}  // namespace calor::ops
