"""Writes torch_resample.h: PyTorch's values of interpolate, avg_pool and adaptive_avg_pool and of their gradients.

Inputs are filled by a rule that the test repeats: x[i] = 3 sin(1.7 i + 1), shape [2, 3, spatial...]. A row holds the options,
how many elements the result has, sum(y[i] sin(i + 1)), and the same of the gradient of x for the cotangent cos(i).
"""
import itertools
import math
import sys

import torch
import torch.nn.functional as F


def fill(shape):
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return (3 * torch.sin(1.7 * i + 1)).reshape(shape)


def weighted(t):
    i = torch.arange(t.numel(), dtype=torch.float64)
    return (t.reshape(-1) * torch.sin(i + 1)).sum().item()


def measure(spatial, f):
    x = fill((2, 3, *spatial)).requires_grad_()
    y = f(x)
    u = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    (gx,) = torch.autograd.grad((y * u).sum(), x)
    return "%d, %.17g, %.17g" % (y.numel(), weighted(y), weighted(gx))


def braces(values):
    return "{" + ", ".join(str(v) for v in values) + "}"


def flag(b):
    return "true" if b else "false"


OURS = {"nearest": "nearest", "nearest-exact": "nearest_exact", "linear": "linear", "bilinear": "linear",
        "trilinear": "linear", "bicubic": "cubic", "area": "area", "lanczos": "lanczos3"}
SIZES = {1: ((7,), [(13,), (3,), (1,), (7,)]),
         2: ((6, 9), [(11, 5), (3, 20), (1, 1), (6, 4)]),
         3: ((5, 4, 6), [(3, 9, 6), (8, 8, 3), (1, 2, 12)])}
MODES = {1: ("nearest", "nearest-exact", "linear", "area"),
         2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
         3: ("nearest", "nearest-exact", "trilinear", "area")}
# (No size is twice the input's: there PyTorch's nearest ignores the scale that was given.)
SCALES = {1: [(1.7,), (0.6,)], 2: [(2.25, 3.15), (0.45, 1.3)], 3: [(1.5, 0.7, 2.3)]}


def interpolations():
    for rank, modes in MODES.items():
        spatial, sizes = SIZES[rank]
        for mode in modes:
            smooth = "linear" in mode or "cubic" in mode
            options = [(False, False)]
            if smooth:
                options.append((True, False))
            if rank == 2 and smooth:
                options.append((False, True))
            for (align, antialias), size in itertools.product(options, sizes):
                kw = dict(mode=mode, antialias=antialias)
                if smooth:
                    kw["align_corners"] = align
                n = measure(spatial, lambda x: F.interpolate(x, size=size, **kw))
                yield "    {Interpolation::%s, %s, %s, {}, %s, %s, false, %s}," % (
                    OURS[mode], braces(spatial), braces(size), flag(align), flag(antialias), n)
            if mode == "area":
                continue
            for scale, recompute in itertools.product(SCALES[rank], (False, True)):
                kw = dict(mode=mode, recompute_scale_factor=recompute)
                if smooth:
                    kw["align_corners"] = False
                n = measure(spatial, lambda x: F.interpolate(x, scale_factor=scale, **kw))
                yield "    {Interpolation::%s, %s, {}, %s, false, false, %s, %s}," % (
                    OURS[mode], braces(spatial), braces(scale), flag(recompute), n)


def averages():
    for rank, kernel, stride, padding in ((1, (3,), (2,), (1,)), (1, (4,), (3,), (0,)), (2, (2, 3), (1, 2), (1, 1)),
                                          (2, (3, 3), (2, 2), (1, 1)), (3, (2, 2, 3), (2, 1, 2), (1, 0, 1))):
        spatial = {1: (10,), 2: (7, 9), 3: (5, 4, 6)}[rank]
        pool = getattr(F, "avg_pool%dd" % rank)
        for ceil, count, divisor in itertools.product((False, True), (False, True), (0, 5)):
            if rank == 1 and divisor:
                continue
            kw = dict(ceil_mode=ceil, count_include_pad=count)
            if divisor:
                kw["divisor_override"] = divisor
            n = measure(spatial, lambda x: pool(x, kernel, stride, padding, **kw))
            yield "    {%s, %s, %s, %s, %s, %s, %d, %s}," % (
                braces(spatial), braces(kernel), braces(stride), braces(padding), flag(ceil), flag(count), divisor, n)


def adaptives():
    for spatial, sizes in (((12,), [(7,), (1,), (30,)]), ((7, 9), [(3, 4), (1, 1), (8, 20)]), ((5, 4, 3), [(3, 3, 2), (6, 1, 3)])):
        pool = getattr(F, "adaptive_avg_pool%dd" % len(spatial))
        for size in sizes:
            n = measure(spatial, lambda x: pool(x, size))
            yield "    {%s, %s, %s}," % (braces(spatial), braces(size), n)


def main():
    out = open(sys.argv[1], "w")
    print("// Made by torch_resample.py with PyTorch %s: what the rows are, it says." % torch.__version__, file=out)
    print("""#pragma once

// clang-format off
namespace torch_values {

using calor::Interpolation;
struct Resize { Interpolation mode; calor::Dims in, size; std::vector<double> scale; bool align, antialias, recompute; int count; double y, gx; };
inline const Resize resizes[] = {""", file=out)
    for row in interpolations():
        print(row, file=out)
    print("""};
struct Average { calor::Dims in, kernel, stride, padding; bool ceil, count_padding; int divisor; int count; double y, gx; };
inline const Average averages[] = {""", file=out)
    for row in averages():
        print(row, file=out)
    print("""};
struct Adaptive { calor::Dims in, size; int count; double y, gx; };
inline const Adaptive adaptives[] = {""", file=out)
    for row in adaptives():
        print(row, file=out)
    print("""};

}  // namespace torch_values
// clang-format on""", file=out)


main()
