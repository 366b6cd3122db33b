// Images through stb_image, limited to the two formats that are promised.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "calor/data.h"
#include "core/fail.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_MAX_DIMENSIONS 65536
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace calor::data {

Tensor read_image(const std::string& path, int channels, const Where& where) {
    if (channels != 1 && channels != 3) {
        fail("value/option", "read_image", where,
             {{"option", "channels"}, {"got", channels}, {"expected", "1 or 3"}, {"help", "1 is grey, 3 is red, green, blue"}});
    }
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!file) fail("io/open", "read_image", where, {{"path", path}, {"what", std::strerror(errno)}});
    int width = 0, height = 0, found = 0;
    const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
        stbi_load_from_file(file.get(), &width, &height, &found, channels), &stbi_image_free);
    if (!pixels) fail("io/image", "read_image", where, {{"path", path}, {"what", stbi_failure_reason()}});
    // stb gives height, width, channels; tensors have channels first.
    const std::int64_t plane = std::int64_t{width} * height;
    std::vector<std::uint8_t> values(static_cast<std::size_t>(plane * channels));
    for (std::int64_t i = 0; i < plane; ++i) {
        for (int c = 0; c < channels; ++c) {
            values[static_cast<std::size_t>(c * plane + i)] = pixels.get()[i * channels + c];
        }
    }
    return tensor(values, {channels, height, width}, where);
}

}  // namespace calor::data
