"""Writes image_resample.h: 8-bit images resized by Pillow and OpenCV.

Images are filled by a rule that the test repeats: level i is (i * i * 7 + i * 29 + i / 5) % 256, in the order height, width,
channel. Pillow's rows hold sum(y[i] (i % 9973 + 1)), which is compared exactly; OpenCV's hold all levels.
"""
import sys

import cv2
import numpy as np
import PIL
from PIL import Image


def image(height, width, channels):
    i = np.arange(height * width * channels, dtype=np.int64)
    return ((i * i * 7 + i * 29 + i // 5) % 256).astype(np.uint8).reshape(height, width, channels)


def check_sum(a):
    flat = a.reshape(-1).astype(np.int64)
    return int((flat * (np.arange(flat.size) % 9973 + 1)).sum())


def pillow():
    filters = {"linear": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC, "lanczos3": Image.Resampling.LANCZOS,
               "box": Image.Resampling.BOX}
    for height, width, channels, sizes in ((40, 61, 3, [(10, 20), (90, 70), (40, 17), (7, 61), (1, 1)]),
                                           (33, 28, 1, [(11, 14), (50, 13)]), (128, 300, 3, [(16, 37)])):
        a = image(height, width, channels)
        source = Image.fromarray(a if channels > 1 else a[:, :, 0])
        for name, f in filters.items():
            for h, w in sizes:
                y = np.asarray(source.resize((w, h), f)).reshape(h, w, channels)
                yield "    {Interpolation::%s, %d, %d, %d, %d, %d, %d}," % (name, height, width, channels, h, w, check_sum(y))


def opencv():
    flags = {"nearest": cv2.INTER_NEAREST, "nearest_exact": cv2.INTER_NEAREST_EXACT, "linear": cv2.INTER_LINEAR,
             "cubic": cv2.INTER_CUBIC, "coverage": cv2.INTER_AREA}
    a = image(12, 9, 1)
    for name, f in flags.items():
        for h, w in ((6, 5), (12, 3), (17, 13)):
            y = cv2.resize(a[:, :, 0], (w, h), interpolation=f)
            yield "    {Interpolation::%s, %d, %d, {%s}}," % (name, h, w, ", ".join(str(v) for v in y.reshape(-1)))


def main():
    out = open(sys.argv[1], "w")
    print("// Made by image_resample.py with Pillow %s and OpenCV %s: what the rows are, it says." % (PIL.__version__, cv2.__version__),
          file=out)
    print("""#pragma once

// clang-format off
namespace image_values {

using calor::Interpolation;
struct Pillow { Interpolation mode; std::int64_t height, width, channels, to_height, to_width, sum; };
inline const Pillow pillow[] = {""", file=out)
    for row in pillow():
        print(row, file=out)
    print("""};
/// From 12 x 9.
struct OpenCv { Interpolation mode; std::int64_t to_height, to_width; std::vector<int> levels; };
inline const OpenCv opencv[] = {""", file=out)
    for row in opencv():
        print(row, file=out)
    print("""};

}  // namespace image_values
// clang-format on""", file=out)


main()
