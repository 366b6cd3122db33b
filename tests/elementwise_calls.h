// For tests of the elementwise table: the public call and the plain definition of every row.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "calor/tensor.h"
#include "ops/elementwise/row.h"

namespace calor::testing {

using Real = long double;
using PublicCall = std::function<Tensor(const std::vector<Tensor>& operands, const double* parameters)>;

/// The public call behind each row.
const std::map<std::string_view, PublicCall>& elementwise_calls();

/// The value by definition; operands as real numbers, bool as 0 and 1.
using Definition = std::function<Real(const Real* operands, const double* parameters)>;
/// Null for nextafter, which depends on the dtype.
Definition elementwise_definition(std::string_view name);

}  // namespace calor::testing
