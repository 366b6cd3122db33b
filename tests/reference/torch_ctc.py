"""Writes torch_ctc.h: PyTorch's CTC losses and their gradients by the logits, for tests/ctc_test.cpp.

Logits are sin(7 i + 1) * 2 over [T, N, C] in row-major order; label j of sample n is 1 + (3 j + 2 n + j j) % (C - 1), or,
with repeats, 1 + (j / 2 + n) % (C - 1). Lengths: T - n frames and max(S - 2 n, 0) labels where a case says ragged.
"""
import math
import sys

import torch
import torch.nn.functional as F


def main():
    lines = []
    for t, n, c, s in ((6, 1, 4, 2), (12, 3, 5, 5), (40, 4, 9, 15), (70, 2, 30, 33)):
        for repeats in (False, True):
            for ragged in (False, True):
                for reduction in ("mean", "sum"):
                    x = torch.tensor([math.sin(7 * i + 1) * 2 for i in range(t * n * c)], dtype=torch.float64)
                    x = x.reshape(t, n, c).requires_grad_()
                    label = lambda j, m: 1 + ((j // 2 + m) if repeats else (3 * j + 2 * m + j * j)) % (c - 1)
                    y = torch.tensor([[label(j, m) for j in range(s)] for m in range(n)])
                    frames = torch.tensor([t - m if ragged else t for m in range(n)])
                    labels = torch.tensor([max(s - 2 * m, 0) if ragged else s for m in range(n)])
                    loss = F.ctc_loss(x.log_softmax(-1), y, frames, labels, reduction=reduction)
                    (g,) = torch.autograd.grad(loss, x)
                    weights = torch.arange(1, g.numel() + 1, dtype=torch.float64).reshape(g.shape)
                    lines.append('    {%d, %d, %d, %d, %s, %s, "%s", %.17g, %.17g},' % (
                        t, n, c, s, str(repeats).lower(), str(ragged).lower(), reduction, loss.item(),
                        (g * torch.cos(weights)).sum().item()))
    with open(sys.argv[1], "w") as out:
        out.write("""// Made by torch_ctc.py with PyTorch %s: the loss, and sum(cos(i + 1) gradient[i]).
#pragma once

#include <cstdint>

namespace torch_values {

struct Ctc {
    std::int64_t frames, samples, classes, labels;
    bool repeats, ragged;
    const char* reduction;
    double loss, gradient;
};
inline constexpr Ctc ctc[] = {
%s
};

}  // namespace torch_values
""" % (torch.__version__, "\n".join(lines)))


main()
