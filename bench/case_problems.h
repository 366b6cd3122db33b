// A case of a case file as something to time: the forward call and what to differentiate it by.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "calor/calor.h"

namespace bench {

/// Tensors whose gradients are computed together; the name of the pass: dgrad, wgrad or bwd.
struct Pass {
    std::string name;
    std::vector<calor::Tensor> inputs;
};

struct Problem {
    std::function<calor::Tensor()> forward;
    std::vector<Pass> passes;
    double flops = 0;  ///< of the forward call; a multiply-add counts as two
};

/// Evaluated normal values of the case's dtype, in memory as the case's "layout" says.
calor::Tensor values_of_case(const calor::Shape& shape, const nlohmann::json& description);
/// Throws std::runtime_error for an operation that no row of the table knows.
Problem problem(const nlohmann::json& description);

}  // namespace bench
