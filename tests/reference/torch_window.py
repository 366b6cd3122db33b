"""Writes torch_window.h: PyTorch's values of padding, pooling, unfolding and shuffling, for the tests of the window operations.

Inputs are filled by a rule that the tests repeat: x[i] = 3 sin(1.7 i + 1). A case is four numbers: how many elements the result
has, sum(y[i] sin(i + 1)), the same of the gradient of x for the cotangent u[i] = cos(i), and sum(index[i] (i % 7 + 1)) of the
indices (0 where there are none).
"""
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


def case(name, shape, f):
    x = fill(shape).requires_grad_()
    y = f(x)
    index = 0
    if isinstance(y, tuple):
        y, indices = y
        i = torch.arange(indices.numel())
        index = (indices.reshape(-1) * (i % 7 + 1)).sum().item()
    u = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    (gx,) = torch.autograd.grad((y * u).sum(), x)
    return '    {"%s", %d, %.17g, %.17g, %d},' % (name, y.numel(), weighted(y), weighted(gx), index)


SHAPES = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (1, 2, 6, 7, 5)}


def pads():
    sides = {1: (3, 2), 2: (1, 3, 4, 0), 3: (2, 1, 0, 3, 1, 2)}
    for n, shape in SHAPES.items():
        for mode in ("constant", "reflect", "replicate", "circular"):
            extra = {"value": 1.5} if mode == "constant" else {}
            yield "pad_%s_%d" % (mode, n), shape, lambda x, mode=mode, n=n, extra=extra: F.pad(x, sides[n], mode, **extra)
    yield "pad_cut_constant", SHAPES[2], lambda x: F.pad(x, (-2, 3, 1, -4), "constant", 0.5)
    yield "pad_cut_replicate", SHAPES[2], lambda x: F.pad(x, (-2, 3, 1, -4), "replicate")
    yield "pad_cut_circular", SHAPES[2], lambda x: F.pad(x, (-2, 3, 1, -4), "circular")


def max_pools():
    names = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    options = {
        "k2": dict(kernel_size=2),
        "k3s2p1": dict(kernel_size=3, stride=2, padding=1),
        "k3s1p1": dict(kernel_size=3, stride=1, padding=1),
        "k2s3ceil": dict(kernel_size=2, stride=3, ceil_mode=True),
        "k3s2p1ceil": dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
        "k2d2s1": dict(kernel_size=2, stride=1, dilation=2),
        "k3d2s2p1ceil": dict(kernel_size=3, stride=2, dilation=2, padding=1, ceil_mode=True),
    }
    for n, shape in SHAPES.items():
        for key, o in options.items():
            f = lambda x, n=n, o=o: names[n](x, return_indices=True, **o)
            try:
                f(fill(shape))
            except RuntimeError:
                continue
            yield "max_pool_%s_%d" % (key, n), shape, f


def adaptive_pools():
    sizes = {1: (4,), 2: (5, 3), 3: (4, 3, 2)}
    names = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
    for n, shape in SHAPES.items():
        yield "adaptive_max_pool_%d" % n, shape, lambda x, n=n: names[n](x, sizes[n], return_indices=True)
        yield "adaptive_max_pool_larger_%d" % n, shape, lambda x, n=n: names[n](
            x, tuple(s + 2 for s in SHAPES[n][2:]), return_indices=True)


def lp_pools():
    # Positive inputs: PyTorch sums x^p, not |x|^p.
    names = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}
    for n, shape in SHAPES.items():
        for p in (1.0, 2.0, 3.0, 1.5):
            yield "lp_pool_%g_%d" % (p, n), shape, lambda x, n=n, p=p: names[n](x.abs(), p, 3, stride=2)


def unpools():
    names = {1: (F.max_pool1d, F.max_unpool1d), 2: (F.max_pool2d, F.max_unpool2d), 3: (F.max_pool3d, F.max_unpool3d)}
    for n, shape in SHAPES.items():

        def f(x, n=n, shape=shape):
            y, i = names[n][0](x, 2, return_indices=True)
            return names[n][1](y * 2, i, 2, output_size=shape[2:])

        yield "max_unpool_%d" % n, shape, f


def fractional_pools():
    # PyTorch takes the samples of two axes in reverse order, those of three axes in order.
    sizes = {2: (5, 4), 3: (3, 4, 2)}
    names = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}
    for n in (2, 3):
        shape = SHAPES[n]
        count = shape[0] * shape[1] * n
        samples = torch.tensor([(math.sin(3.1 * i) + 1) / 2.001 for i in range(count)], dtype=torch.float64)
        samples = samples.reshape(shape[0], shape[1], n)
        given = samples.flip(-1) if n == 2 else samples
        yield "fractional_max_pool_%d" % n, shape, lambda x, n=n, g=given: names[n](
            x, 2, output_size=sizes[n], _random_samples=g, return_indices=True)


def folds():
    o = dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    yield "unfold", SHAPES[2], lambda x: F.unfold(x, **o)
    yield "fold", (2, 18, 50), lambda x: F.fold(x, output_size=(9, 8), **o)


def shuffles():
    yield "pixel_shuffle", (2, 12, 3, 5), lambda x: F.pixel_shuffle(x, 2)
    yield "pixel_unshuffle", (2, 3, 4, 6), lambda x: F.pixel_unshuffle(x, 2)


def main():
    lines = []
    for group in (pads, max_pools, adaptive_pools, lp_pools, unpools, fractional_pools, folds, shuffles):
        for name, shape, f in group():
            lines.append(case(name, shape, f))
    with open(sys.argv[1] if len(sys.argv) > 1 else "torch_window.h", "w") as out:
        out.write("// Made by torch_window.py with PyTorch %s: see there.\n" % torch.__version__)
        out.write("#pragma once\n\nnamespace torch_values {\n\nstruct Window {\n    const char* name;\n    long long count;\n")
        out.write("    double values, gradient;\n    long long indices;\n};\n")
        out.write("inline constexpr Window windows[] = {\n%s\n};\n\n}  // namespace torch_values\n" % "\n".join(lines))


main()
