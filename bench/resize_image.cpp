// Resizing an RGB image of 8-bit levels, 2560 x 2048 to 320 x 256 with antialias; resize_image_pillow.py runs Pillow's
// beside it. One JSON line a filter: the fastest and the median call in milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "calor/calor.h"

namespace ca = calor;

int main(int argc, char** argv) {
    ca::set_thread_count(argc > 1 ? std::atoi(argv[1]) : 2);
    std::vector<std::uint8_t> levels(std::size_t{2048} * 2560 * 3);
    for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = static_cast<std::uint8_t>(i * i * 7 + i * 29 + i / 5);
    const ca::Tensor pixels = ca::tensor(levels, {1, 2048, 2560, 3});
    const ca::Tensor image = ca::permute(pixels, {0, 3, 1, 2}).eval(), planes = ca::contiguous(image).eval();
    const std::pair<const char*, ca::Interpolation> filters[] = {{"bilinear", ca::Interpolation::linear},
                                                                 {"bicubic", ca::Interpolation::cubic},
                                                                 {"lanczos", ca::Interpolation::lanczos3},
                                                                 {"box", ca::Interpolation::box}};
    for (const auto& [name, mode] : filters) {
        const ca::InterpolateOptions options{
            .size = {256, 320}, .mode = mode, .antialias = mode != ca::Interpolation::box};
        for (const bool interleaved : {true, false}) {
            std::vector<double> times;
            for (int i = 0; i < 60; ++i) {
                const auto start = std::chrono::steady_clock::now();
                ca::interpolate(interleaved ? image : planes, options).eval();
                times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e3);
            }
            std::ranges::sort(times);
            std::printf("{\"filter\": \"%s\", \"layout\": \"%s\", \"best_ms\": %.3f, \"median_ms\": %.3f}\n", name,
                        interleaved ? "interleaved" : "planes", times.front(), times[times.size() / 2]);
        }
    }
}
