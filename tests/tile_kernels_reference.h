// References of the float tile kernels in long double: the definitions, written for clarity.
#pragma once

#include <span>

namespace calor::reference {

using Real = long double;

struct Unary {
    const char* name;
    Real (*function)(Real x, const double* parameters);
    double bound32, bound64;  ///< largest error allowed, in units in the last place
    double parameters[4] = {};
    Real (*scale)(Real x) = nullptr;  ///< magnitude of the terms that cancel: errors are relative to it
};

struct Binary {
    const char* name;
    Real (*function)(Real a, Real b);
    double bound32, bound64;
    Real (*scale)(Real a, Real b) = nullptr;
};

std::span<const Unary> unary();
std::span<const Binary> binary();

}  // namespace calor::reference
