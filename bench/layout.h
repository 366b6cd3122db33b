// How the benchmarks' arrays lie in memory.
#pragma once

#include "calor/calor.h"

namespace bench {

/// The values evaluated, with axis 1 innermost in memory if asked for.
inline calor::Tensor laid_out(calor::Tensor values, bool channels_last) {
    const std::int64_t rank = values.rank();
    if (channels_last && rank > 2) {
        values = calor::movedim(calor::contiguous(calor::movedim(values, {1}, {rank - 1})), {rank - 1}, {1});
    }
    return values.eval();
}

}  // namespace bench
