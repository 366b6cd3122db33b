#!/usr/bin/env python3
"""The training step of `calor train mnist` beside the same step in PyTorch, in one sitting.

    training_step.py --ours build/release/bench/mnist_step --python /path/to/python-with-torch [--out results.jsonl]

Runs both in turn, several rounds, and prints the ratio of the medians (theirs over ours; above 1 calor is faster).
"""
import argparse
import json
import statistics
import subprocess
from pathlib import Path


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out")
    a = parser.parse_args()
    peer = Path(__file__).with_name("mnist_step_torch.py")
    lines = []
    for batch in (64, 128, 256):
        options = ["--threads", str(a.threads), "--batch-size", str(batch), "--steps", str(a.steps)]
        ours, theirs = [], []
        for _ in range(a.rounds):
            ours.append(run([a.ours, *options])["ms"])
            theirs.append(run([a.python, str(peer), *options]))
        mine, other = statistics.median(ours), statistics.median(t["ms"] for t in theirs)
        print(f"batch {batch:4d}: calor {mine:7.2f} ms, PyTorch {theirs[0]['torch']} {other:7.2f} ms, ratio {other / mine:.2f}", flush=True)
        lines.append({"id": f"mnist_step/b{batch}", "pass": "step", "ms": mine, "peer_ms": other, "ratio": other / mine,
                      "peer": "torch " + theirs[0]["torch"], "threads": a.threads})
    if a.out:
        Path(a.out).write_text("".join(json.dumps(line) + "\n" for line in lines))


main()
