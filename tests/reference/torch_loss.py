"""Writes torch_loss.h: PyTorch's values of losses, for tests/loss_test.cpp.

Inputs are filled by rules that the test repeats: x[i] = sin(i + 1) * 2, t[i] = cos(3 i), classes[i] = (5 i + 2) % C with every
third one ignored (-100) where a case says so, weights w[c] = 0.5 + 0.25 c.
"""
import math
import sys

import torch
import torch.nn.functional as F


def fill(shape, rule):
    count = math.prod(shape)
    return torch.tensor([rule(i) for i in range(count)], dtype=torch.float64).reshape(shape)


def scores(shape):
    return fill(shape, lambda i: math.sin(i + 1) * 2)


def other(shape):
    return fill(shape, lambda i: math.cos(3 * i))


def classes(shape, count, ignoring):
    values = [-100 if ignoring and i % 3 == 0 else (5 * i + 2) % count for i in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape)


def main():
    lines = []

    def add(name, loss, x):
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        numbers = [loss.sum().item(), (gradient * fill(gradient.shape, lambda i: i + 1)).sum().item()]
        lines.append('    {"%s", %s},' % (name, ", ".join("%.17g" % v for v in numbers)))

    C = 4
    w = torch.tensor([0.5 + 0.25 * c for c in range(C)], dtype=torch.float64)
    for shape, key in (((C,), "Single"), ((6, C), "Batch"), ((2, C, 3, 2), "Image")):
        target_shape = (shape[0],) + shape[2:] if len(shape) > 1 else ()
        for ignoring in (False, True):
            if ignoring and len(shape) == 1:
                continue
            for weight in (None, w):
                for smoothing in (0.0, 0.2):
                    for reduction in ("mean", "sum", "none"):
                        x = scores(shape).requires_grad_()
                        t = classes(target_shape, C, ignoring)
                        loss = F.cross_entropy(x, t, weight=weight, label_smoothing=smoothing, reduction=reduction)
                        name = "CrossEntropy%s%s%s%s_%s" % (
                            key, "Ignoring" if ignoring else "", "" if weight is None else "Weighted",
                            "Smooth" if smoothing else "", reduction)
                        add(name, loss, x)
        for weight in (None, w):
            for reduction in ("mean", "sum"):
                x = scores(shape).requires_grad_()
                p = torch.softmax(other(shape), dim=0 if len(shape) == 1 else 1)
                loss = F.cross_entropy(x, p, weight=weight, label_smoothing=0.1, reduction=reduction)
                add("CrossEntropy%sProbabilities%s_%s" % (key, "" if weight is None else "Weighted", reduction), loss, x)
    shape = (3, 4)
    sigma = torch.sigmoid(other(shape) * 3)
    for reduction in ("mean", "sum", "none"):
        def case(name, function):
            x = scores(shape).requires_grad_()
            add("%s_%s" % (name, reduction), function(x), x)
        case("Mse", lambda x: F.mse_loss(x, other(shape), reduction=reduction))
        case("L1", lambda x: F.l1_loss(x, other(shape), reduction=reduction))
        case("SmoothL1", lambda x: F.smooth_l1_loss(x, other(shape), beta=0.7, reduction=reduction))
        case("Huber", lambda x: F.huber_loss(x, other(shape), delta=0.7, reduction=reduction))
        case("Bce", lambda x: F.binary_cross_entropy(torch.sigmoid(x), sigma, weight=w, reduction=reduction))
        case("BceWithLogits", lambda x: F.binary_cross_entropy_with_logits(x, sigma, weight=w, pos_weight=w + 1, reduction=reduction))
        p = torch.softmax(other(shape), dim=1)
        case("KlDiv", lambda x: F.kl_div(F.log_softmax(x, dim=1), p, reduction=reduction))
        case("KlDivLog", lambda x: F.kl_div(F.log_softmax(x, dim=1), p.log(), log_target=True, reduction=reduction))
    x = scores(shape).requires_grad_()
    add("KlDiv_batchmean", F.kl_div(F.log_softmax(x, dim=1), p, reduction="batchmean"), x)
    head = ["// Made by torch_loss.py with PyTorch %s: the sum of the loss, and sum((i + 1) * gradient[i])." % torch.__version__,
            "#pragma once", "", "namespace torch_values {", "", "struct Loss {", "    const char* name;",
            "    double loss, gradient;", "};", "inline constexpr Loss losses[] = {"]
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(head + lines + ["};", "", "}  // namespace torch_values", ""]))


main()
