#!/usr/bin/env python3
"""PyTorch beside conv_nd: 3-D and transposed convolution, and the loop over conv3d that users write beyond 3-D.

A line: name, dtype, pass, best time in ms.
"""
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(2)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PLAIN = [("3-D of equal work", (1, 8, 24, 24, 24), (24, 8, 3, 3, 3), 1, 1),
         ("3-D of equal work, 8 channels", (1, 8, 35, 35, 34), (8, 8, 3, 3, 3), 1, 1),
         ("4-D", (1, 8, 8, 12, 12, 12), (8, 8, 3, 3, 3, 3), 1, 1),
         ("5-D", (1, 8, 6, 6, 6, 8, 8), (8, 8, 3, 3, 3, 3, 3), 1, 1),
         ("6-D", (1, 8, 4, 4, 4, 4, 4, 4), (8, 8, 3, 3, 3, 3, 3, 3), 1, 1),
         ("4-D wide", (1, 32, 8, 12, 12, 12), (32, 32, 3, 3, 3, 3), 1, 1),
         ("4-D strided", (2, 8, 8, 16, 16, 16), (16, 8, 3, 3, 3, 3), 2, 1),
         ("patches k16 s16", (8, 3, 224, 224), (384, 3, 16, 16), 16, 0)]
TRANSPOSED = [("transposed k4 s2", (4, 64, 28, 28), (64, 32, 4, 4), 2, 1),
              ("transposed k2 s2", (1, 64, 10, 20, 20), (64, 64, 2, 2, 2), 2, 0),
              ("transposed k2 s2 large", (1, 256, 20, 20, 20), (256, 128, 2, 2, 2), 2, 0),
              ("transposed k8 s8", (16, 64, 4, 4), (64, 3, 8, 8), 8, 0)]


def conv_loop(x, w, stride, pad):
    """A sum over the first kernel axis of convolutions with one axis less, merged into the batch."""
    axes = x.dim() - 2
    if axes <= 3:
        return (F.conv1d, F.conv2d, F.conv3d)[axes - 1](x, w, None, stride, pad)
    n, c = x.shape[:2]
    x = F.pad(x, (0, 0) * (axes - 1) + (pad, pad))
    count = (x.shape[2] - w.shape[2]) // stride + 1
    out = 0
    for i in range(w.shape[2]):
        part = x[:, :, i:i + (count - 1) * stride + 1:stride].transpose(1, 2).reshape(n * count, c, *x.shape[3:])
        out = out + conv_loop(part, w[:, :, i], stride, pad)
    return out.reshape(n, count, w.shape[0], *out.shape[2:]).transpose(1, 2)


def best_ms(f):
    f()
    start = time.perf_counter()
    f()
    n = max(5, min(200, int(0.4 / (time.perf_counter() - start))))
    times = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for transposed, cases in ((False, PLAIN), (True, TRANSPOSED)):
        for name, x_shape, w_shape, stride, pad in cases:
            if only not in name:
                continue
            for dtype_name, dtype in DTYPES.items():
                x = torch.randn(x_shape, dtype=dtype, requires_grad=True)
                w = torch.randn(w_shape, dtype=dtype, requires_grad=True)
                if transposed:
                    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(x_shape) - 3]
                    run = lambda: function(x, w, None, stride, pad)
                else:
                    run = lambda: conv_loop(x, w, stride, pad)
                y = run()
                gy = torch.randn_like(y)
                print(f"{name:32s} {dtype_name:5s} fwd    {best_ms(run):9.3f} ms", flush=True)
                for role, of in (("dgrad", x), ("wgrad", w)):
                    ms = best_ms(lambda: torch.autograd.grad(y, of, gy, retain_graph=True))
                    print(f"{name:32s} {dtype_name:5s} {role:6s} {ms:9.3f} ms", flush=True)


main()
