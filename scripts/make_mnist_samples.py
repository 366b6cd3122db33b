#!/usr/bin/env python3
"""Writes the first test image of some digits as PNG files to data/mnist/samples (nothing but the standard library).

The name says the index in the test set and the label: test-0001-label-2.png. PNG: 8-bit greyscale, one IDAT chunk,
filter 0 in front of every row. The bytes depend only on the data and on zlib.
"""
import gzip
import struct
import zlib
from pathlib import Path

DIGITS = (0, 2, 4, 5, 7, 9)
MNIST = Path(__file__).resolve().parent.parent / "data" / "mnist"


def read_idx(name):
    """Returns (sizes of the axes, bytes of the elements) of a gzip-compressed idx file of unsigned bytes."""
    data = gzip.decompress((MNIST / name).read_bytes())
    zero, element_type, rank = struct.unpack(">HBB", data[:4])
    if zero != 0 or element_type != 8:
        raise ValueError(f"{name} is not an idx file of unsigned bytes")
    sizes = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return sizes, data[4 + 4 * rank :]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, pixels):
    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def main():
    (_, height, width), images = read_idx("t10k-images-idx3-ubyte.gz")
    _, labels = read_idx("t10k-labels-idx1-ubyte.gz")
    (MNIST / "samples").mkdir(exist_ok=True)
    for digit in DIGITS:
        index = labels.index(digit)
        pixels = images[index * height * width : (index + 1) * height * width]
        path = MNIST / "samples" / f"test-{index:04}-label-{digit}.png"
        path.write_bytes(png(width, height, pixels))
        print(path.relative_to(MNIST.parent.parent))


if __name__ == "__main__":
    main()
