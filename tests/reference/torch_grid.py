"""Writes torch_grid.h: PyTorch's values of grid_sample, affine_grid and of deformable convolution by its plain formula.

Inputs are filled by rules that the tests repeat, in f64: the k-th tensor of a case is 1.3 sin(0.7 i + k + 1) at its i-th element;
grids are 1.6 cos(1.9 i + 0.3), offsets 1.7 sin(1.1 i + 0.5), masks 0.5 + 0.4 cos(0.9 i). A line holds sum over i of
cos(0.37 i) v[i] for the result v, and the same for each gradient of sum over i of sin(0.53 i + 1) v[i].
"""
import itertools
import math
import sys

import torch
import torch.nn.functional as F


def fill(shape, rule):
    return torch.tensor([rule(i) for i in range(math.prod(shape))], dtype=torch.float64).reshape(shape)


def data(shape, k):
    return fill(shape, lambda i: 1.3 * math.sin(0.7 * i + k + 1)).requires_grad_()


def digest(v):
    return (v.detach() * fill(v.shape, lambda i: math.cos(0.37 * i))).sum().item()


def numbers(y, inputs):
    loss = (y * fill(y.shape, lambda i: math.sin(0.53 * i + 1))).sum()
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [digest(y)] + [digest(torch.zeros_like(i) if g is None else g) for g, i in zip(grads, inputs)]


def sampling(lines):
    for sizes, positions in (((5, 7), (4, 3)), ((1, 6), (3, 4)), ((4, 5, 3), (2, 3, 4))):
        modes = ("nearest", "bilinear") + (("bicubic",) if len(sizes) == 2 else ())
        for mode, padding, align in itertools.product(modes, ("zeros", "border", "reflection"), (False, True)):
            x = data((2, 3) + sizes, 0)
            g = fill((2,) + positions + (len(sizes),), lambda i: 1.6 * math.cos(1.9 * i + 0.3)).requires_grad_()
            y = F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=align)
            lines.append((("nearest", "bilinear", "bicubic").index(mode), ("zeros", "border", "reflection").index(padding),
                          align, len(sizes), sizes + (1,) * (3 - len(sizes)), positions + (1,) * (3 - len(positions)),
                          numbers(y, (x, g))))


def affine(lines):
    for sizes, align in itertools.product(((4, 3), (1, 5), (2, 1, 3)), (False, True)):
        theta = data((2, len(sizes), len(sizes) + 1), 0)
        y = F.affine_grid(theta, (2, 1) + sizes, align_corners=align)
        lines.append((len(sizes), sizes + (1,) * (3 - len(sizes)), align, numbers(y, (theta,))))


def corners(plane, u):
    """plane [C, sizes...] between its elements at u [points, R], zero outside."""
    rank, total = u.shape[1], 0
    low = torch.floor(u.detach()).long()
    for corner in itertools.product((0, 1), repeat=rank):
        at = low + torch.tensor(corner)
        weight, inside = 1, torch.ones(u.shape[0], dtype=torch.bool)
        for a in range(rank):
            t = u[:, a] - low[:, a]
            weight = weight * (t if corner[a] else 1 - t)
            inside &= (at[:, a] >= 0) & (at[:, a] < plane.shape[a + 1])
        index = [at[:, a].clamp(0, plane.shape[a + 1] - 1) for a in range(rank)]
        total = total + plane[(slice(None), *index)] * weight * inside
    return total


def deform(x, offset, weight, mask, bias, stride, padding, dilation, groups, offset_groups):
    n, c = x.shape[:2]
    kernel, positions, rank = weight.shape[2:], offset.shape[2:], x.dim() - 2
    taps = list(itertools.product(*map(range, kernel)))
    grid = torch.stack(torch.meshgrid(*[torch.arange(p) for p in positions], indexing="ij"), -1).reshape(-1, rank)
    out = []
    for b in range(n):
        off = offset[b].reshape(offset_groups, len(taps), rank, -1)
        columns = []
        for og in range(offset_groups):
            part = x[b, og * (c // offset_groups):(og + 1) * (c // offset_groups)]
            for k, tap in enumerate(taps):
                base = torch.stack([grid[:, a] * stride[a] - padding[a] + tap[a] * dilation[a] for a in range(rank)], -1)
                v = corners(part, base + off[og, k].T)
                if mask is not None:
                    v = v * mask[b].reshape(offset_groups, len(taps), -1)[og, k]
                columns.append(v)
        v = torch.stack(columns).reshape(offset_groups, len(taps), c // offset_groups, -1).permute(0, 2, 1, 3).reshape(c, len(taps), -1)
        v = v.reshape(groups, -1, v.shape[-1])
        y = torch.bmm(weight.reshape(groups, weight.shape[0] // groups, -1), v).reshape(weight.shape[0], *positions)
        out.append(y + bias.reshape(-1, *[1] * rank) if bias is not None else y)
    return torch.stack(out)


DEFORM = (  # sizes, kernel, stride, padding, dilation, groups, offset groups, mask and bias
    ((7,), (3,), (2,), (1,), (1,), 1, 1, False),
    ((5, 6), (3, 2), (1, 2), (1, 0), (1, 2), 1, 1, False),
    ((5, 6), (3, 3), (2, 1), (1, 1), (1, 1), 2, 4, True),
    ((4, 4), (2, 2), (1, 1), (0, 1), (2, 1), 4, 2, True),
    ((3, 4, 3), (2, 2, 2), (1, 1, 1), (0, 1, 0), (1, 2, 1), 2, 2, True),
)


def deformable(lines):
    for sizes, kernel, stride, padding, dilation, groups, og, both in DEFORM:
        positions = tuple((s + 2 * p - d * (k - 1) - 1) // t + 1
                          for s, k, t, p, d in zip(sizes, kernel, stride, padding, dilation))
        taps = math.prod(kernel)
        x, w = data((2, 4) + sizes, 0), data((8, 4 // groups) + kernel, 1)
        offset = fill((2, og * taps * len(sizes)) + positions, lambda i: 1.7 * math.sin(1.1 * i + 0.5)).requires_grad_()
        mask = fill((2, og * taps) + positions, lambda i: 0.5 + 0.4 * math.cos(0.9 * i)).requires_grad_() if both else None
        bias = data((8,), 2) if both else None
        y = deform(x, offset, w, mask, bias, stride, padding, dilation, groups, og)
        lines.append(numbers(y, (x, offset, w) + ((mask, bias) if both else ())))


def text(v):
    if isinstance(v, (list, tuple)):
        return "{" + ", ".join(map(text, v)) + "}"
    return ("true" if v else "false") if isinstance(v, bool) else "%.17g" % v if isinstance(v, float) else str(v)


def main():
    out = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
    say = lambda line: print(line, file=out)
    say("// Made by torch_grid.py with PyTorch %s: see there." % torch.__version__)
    say("#pragma once\n\n#include <cstdint>\n\n// clang-format off\nnamespace torch_values {\n")
    say("struct GridSample {\n    int mode, padding;\n    bool align;\n    std::int64_t rank, sizes[3], positions[3];\n"
        "    double values[3];  ///< result, gradient of the input, of the grid\n};")
    for name, kind, make in (("GridSample", "grid_samples", sampling), ("AffineGrid", "affine_grids", affine),
                             ("", "deform_convs", deformable)):
        lines = []
        make(lines)
        if name == "AffineGrid":
            say("struct AffineGrid {\n    std::int64_t rank, sizes[3];\n    bool align;\n"
                "    double values[2];  ///< result, gradient of theta\n};")
        if name == "":
            lines = [line + [0.0] * (6 - len(line)) for line in lines]
            say("/// result, gradients of input, offset, weight, mask, bias")
        say("inline constexpr %s %s[]%s = {" % (name or "double", kind, "" if name else "[6]"))
        for line in lines:
            say("    %s," % text(line))
        say("};\n")
    say("}  // namespace torch_values")


main()
