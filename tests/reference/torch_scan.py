"""Writes torch_scan.h: PyTorch's values of scans and of their gradients, for tests/scan_test.cpp.

x[i] = sin(i + 1) * 2, the cotangent u[i] = cos(3 i); Ties repeats every number of x; Zeros sets x[i] = 0 where i % 5 == 2.
"""
import math
import sys

import torch

SHAPE = (3, 7, 2)


def fill(rule):
    return torch.tensor([rule(i) for i in range(math.prod(SHAPE))], dtype=torch.float64).reshape(SHAPE)


def main():
    u = fill(lambda i: math.cos(3 * i))
    inputs = {
        "Plain": fill(lambda i: math.sin(i + 1) * 2),
        "Ties": fill(lambda i: math.sin(i // 4 + 1) * 2),
        "Zeros": fill(lambda i: 0.0 if i % 5 == 2 else math.sin(i + 1) * 2),
    }
    functions = {
        "cumsum": torch.cumsum,
        "cumprod": torch.cumprod,
        "logcumsumexp": torch.logcumsumexp,
        "cummax": lambda x, axis: torch.cummax(x, axis)[0],
        "cummin": lambda x, axis: torch.cummin(x, axis)[0],
    }
    lines = []
    for name, f in functions.items():
        for key, values in inputs.items():
            for axis in range(3):
                x = values.clone().requires_grad_()
                y = f(x, axis)
                (g,) = torch.autograd.grad(y, x, u)
                w = fill(lambda i: i + 1)
                numbers = ((y.detach() * w).sum().item(), (g * w).sum().item())
                lines.append('    {"%s", "%s", %d, %.17g, %.17g},' % (name, key, axis, *numbers))
    indices = []
    for name in ("cummax", "cummin"):
        x = torch.tensor([1.0, 3.0, 3.0, float("nan"), 5.0, float("nan"), -1.0])
        indices.append('    {"%s", {%s}},' % (name, ", ".join(str(i.item()) for i in getattr(torch, name)(x, 0)[1])))
    with open(sys.argv[1], "w") as out:
        out.write("""// Made by torch_scan.py with PyTorch %s: sum((i + 1) y[i]) and sum((i + 1) gradient[i]).
#pragma once

#include <cstdint>

namespace torch_values {

struct Scan {
    const char *function, *input;
    std::int64_t axis;
    double value, gradient;
};
inline constexpr Scan scans[] = {
%s
};
/// Positions of the running extremes of 1, 3, 3, NaN, 5, NaN, -1.
struct Positions {
    const char* function;
    std::int64_t at[7];
};
inline constexpr Positions positions[] = {
%s
};

}  // namespace torch_values
""" % (torch.__version__, "\n".join(lines), "\n".join(indices)))


main()
