"""Writes torch_conv.h: PyTorch's values of transposed convolutions and of padding modes, for tests/conv_nd_test.cpp.

x[i] = sin(i + 1), w[i] = cos(2 i), bias[i] = i / 4, cotangent u[i] = cos(3 i). Numbers are sums weighted by i + 1 of the
result and of the gradients of x, w and bias.
"""
import math
import sys

import torch
import torch.nn.functional as F

# x, w, stride, padding, output padding, dilation, groups
TRANSPOSED = [((2, 4, 5), (4, 3, 3), (2,), (1,), (1,), (1,), 1),
              ((1, 2, 4), (2, 2, 2), (1,), (0,), (2,), (3,), 1),
              ((2, 4, 3, 4), (4, 2, 3, 2), (2, 3), (1, 0), (1, 2), (1, 2), 2),
              ((1, 3, 4, 3), (3, 2, 2, 2), (2, 2), (0, 0), (0, 0), (1, 1), 1),
              ((1, 2, 2, 3, 2), (2, 3, 2, 3, 2), (2, 1, 2), (0, 1, 1), (1, 0, 1), (1, 2, 1), 1),
              ((1, 4, 2, 2, 3), (4, 1, 3, 3, 2), (1, 2, 3), (1, 1, 0), (1, 1, 0), (2, 1, 2), 4)]
# x, w, stride, padding, dilation, mode
BORDERS = [((2, 3, 6), (2, 3, 3), (1,), (2,), (1,)), ((1, 2, 5, 6), (3, 2, 3, 2), (2, 1), (2, 1), (1, 2)),
           ((1, 2, 4, 3, 5), (2, 2, 3, 2, 3), (1, 2, 1), (1, 2, 2), (1, 1, 2))]


def fill(shape, rule):
    return torch.tensor([rule(i) for i in range(math.prod(shape))], dtype=torch.float64).reshape(shape)


def numbers(y, inputs):
    grads = torch.autograd.grad(y, inputs, fill(y.shape, lambda i: math.cos(3 * i)))
    return [(t.detach() * fill(t.shape, lambda i: i + 1)).sum().item() for t in (y, *grads)]


def braces(values):
    return "{" + ", ".join(map(str, values)) + "}"


def main():
    lines = []
    for x_shape, w_shape, *options, groups in TRANSPOSED:
        x, w = fill(x_shape, lambda i: math.sin(i + 1)), fill(w_shape, lambda i: math.cos(2 * i))
        b = fill((w_shape[1] * groups,), lambda i: i / 4)
        inputs = [t.requires_grad_() for t in (x, w, b)]
        f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(x_shape) - 3]
        stride, padding, output_padding, dilation = options
        y = f(x, w, b, stride, padding, output_padding, groups, dilation)
        lines.append("    {%s, %s, %s, %s, %s, %s, %d, %s}," %
                     (braces(x_shape), braces(w_shape), *map(braces, options), groups,
                      braces("%.17g" % v for v in numbers(y, inputs))))
    text = ["", "inline const std::vector<TransposedCase> torch_transposed = {", *lines, "};", ""]
    lines = []
    for x_shape, w_shape, stride, padding, dilation in BORDERS:
        for mode in ("reflect", "replicate", "circular"):
            x, w = fill(x_shape, lambda i: math.sin(i + 1)), fill(w_shape, lambda i: math.cos(2 * i))
            b = fill((w_shape[0],), lambda i: i / 4)
            inputs = [t.requires_grad_() for t in (x, w, b)]
            sides = [p for p in reversed(padding) for _ in range(2)]
            f = (F.conv1d, F.conv2d, F.conv3d)[len(x_shape) - 3]
            y = f(F.pad(x, sides, mode=mode), w, b, stride, 0, dilation)
            lines.append("    {%s, %s, %s, %s, %s, PadMode::%s, %s}," %
                         (braces(x_shape), braces(w_shape), braces(stride), braces(padding), braces(dilation), mode,
                          braces("%.17g" % v for v in numbers(y, inputs))))
    text += ["inline const std::vector<BorderCase> torch_borders = {", *lines, "};", ""]
    head = ["// Made by torch_conv.py with PyTorch %s; its head says what the numbers are." % torch.__version__.split("+")[0],
            "#pragma once", "", "#include <vector>", "", '#include "calor/conv.h"', "", "namespace calor::testing {", "",
            "struct TransposedCase {", "    Shape x, w;", "    PerAxis stride, padding, output_padding, dilation;",
            "    std::int64_t groups;", "    std::vector<double> sums;", "};", "", "struct BorderCase {", "    Shape x, w;",
            "    PerAxis stride, padding, dilation;", "    PadMode mode;", "    std::vector<double> sums;", "};"]
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(head + text + ["}  // namespace calor::testing", ""]))


main()
