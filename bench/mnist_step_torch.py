#!/usr/bin/env python3
"""One training step of the MNIST network of `calor train mnist`, in PyTorch on the CPU: the peer of bench/mnist_step.cpp.

    mnist_step_torch.py --threads 2 --batch-size 128

Prints one JSON line: median milliseconds of a step (forward, loss, backward, AdamW), over steps after a warm-up.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def measure(net, batch_size, steps):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    images = torch.rand(batch_size, 1, 28, 28)
    if next(net.parameters()).is_contiguous(memory_format=torch.channels_last):
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch_size,))

    def step():
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(10):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    plain = measure(network(), arguments.batch_size, arguments.steps)
    last = measure(network().to(memory_format=torch.channels_last), arguments.batch_size, arguments.steps)
    # The peer at its faster memory format.
    print(json.dumps({"id": "mnist_step", "pass": "step", "ms": min(plain, last), "plain_ms": plain,
                      "channels_last_ms": last, "batch": arguments.batch_size, "torch": torch.__version__}))


main()
