// Elements as words of one width: NumPy's rules for integers, bools and floats.
#pragma once

#include <string>
#include <vector>

#include "calor/dtype.h"

namespace calor::print {

/// Every element as text, all of the same length. `values` hold numbers of `dtype`.
std::vector<std::string> float_words(const std::vector<double>& values, DType dtype);
/// Right-aligned in one width.
std::vector<std::string> aligned(std::vector<std::string> words);

}  // namespace calor::print
