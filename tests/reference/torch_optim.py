"""Writes torch_optim.h: values of parameters after five steps of PyTorch's optimizers, for tests/optim_test.cpp."""
import math
import sys

import torch

CASES = [
    ("SGD", "SGD", dict(lr=0.1)),
    ("SGDWeightDecay", "SGD", dict(lr=0.1, weight_decay=0.05)),
    ("SGDMomentum", "SGD", dict(lr=0.1, momentum=0.9)),
    ("SGDDampening", "SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)),
    ("SGDNesterov", "SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)),
    ("Adam", "Adam", dict(lr=0.1)),
    ("AdamBetas", "Adam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    ("AdamAmsgrad", "Adam", dict(lr=0.1, betas=(0.5, 0.6), amsgrad=True)),
    ("AdamW", "AdamW", dict(lr=0.1)),
    ("AdamWDecay", "AdamW", dict(lr=0.1, weight_decay=0.3, amsgrad=True, betas=(0.5, 0.6))),
]


def main():
    out = ["// Made by torch_optim.py with PyTorch %s. p = (0.5, -1, 2), g_t = (sin t, cos 2t / t, 1 - t / 3), t = 1..5."
           % torch.__version__, "#pragma once", "", "namespace torch_values {", ""]
    for name, kind, options in CASES:
        p = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        optimizer = getattr(torch.optim, kind)([p], **options)
        for t in range(1, 6):
            p.grad = torch.tensor([math.sin(t), math.cos(2 * t) / t, 1 - t / 3], dtype=torch.float64)
            optimizer.step()
        out.append("inline constexpr double %s[3] = {%s};" % (name, ", ".join("%.17g" % v for v in p.tolist())))
    out += ["", "}  // namespace torch_values", ""]
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(out))


main()
