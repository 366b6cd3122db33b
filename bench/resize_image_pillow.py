"""Pillow beside resize_image: the same image and filters, one JSON line a filter."""
import json
import time

import numpy as np
import PIL
from PIL import Image

i = np.arange(2048 * 2560 * 3, dtype=np.uint64)
source = Image.fromarray(((i * i * 7 + i * 29 + i // 5) % 256).astype(np.uint8).reshape(2048, 2560, 3))
for name in ("BILINEAR", "BICUBIC", "LANCZOS", "BOX"):
    times = []
    for _ in range(40):
        start = time.perf_counter()
        source.resize((320, 256), Image.Resampling[name])
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    print(json.dumps({"filter": name.lower(), "best_ms": times[0], "median_ms": times[len(times) // 2], "pillow": PIL.__version__}))
