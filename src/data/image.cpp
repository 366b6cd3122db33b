// Images through stb_image and stb_image_resize, limited to the two formats that are promised.
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
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace calor::data {

namespace {

void check_options(const ImageOptions& o, const Where& where) {
    if (o.channels != 1 && o.channels != 3) {
        fail("value/option", "read_image", where,
             {{"option", "channels"},
              {"got", o.channels},
              {"expected", "1 or 3"},
              {"help", "1 is grey, 3 is red, green, blue"}});
    }
    for (const int size : {o.height, o.width}) {
        if (size >= 0 && size <= STBI_MAX_DIMENSIONS) continue;
        fail("value/option", "read_image", where,
             {{"option", "height or width"},
              {"got", size},
              {"expected", "0 to 65536"},
              {"help", "0 keeps the image's size"}});
    }
}

}  // namespace

Tensor read_image(const std::string& path, const ImageOptions& options, const Where& where) {
    check_options(options, where);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!file) fail("io/open", "read_image", where, {{"path", path}, {"what", std::strerror(errno)}});
    int width = 0, height = 0, found = 0;
    const std::unique_ptr<stbi_uc, void (*)(void*)> decoded(
        stbi_load_from_file(file.get(), &width, &height, &found, options.channels), &stbi_image_free);
    if (!decoded) fail("io/image", "read_image", where, {{"path", path}, {"what", stbi_failure_reason()}});
    const stbi_uc* pixels = decoded.get();
    std::vector<stbi_uc> resized;
    const int new_height = options.height ? options.height : height, new_width = options.width ? options.width : width;
    if (new_height != height || new_width != width) {
        resized = host_array<stbi_uc>(std::int64_t{new_height} * new_width * options.channels, "read_image", where);
        if (!stbir_resize_uint8(pixels, width, height, 0, resized.data(), new_width, new_height, 0, options.channels)) {
            fail("io/image", "read_image", where, {{"path", path}, {"what", "resizing it failed"}});
        }
        pixels = resized.data();
    }
    // stb gives height, width, channels; tensors have channels first.
    const std::int64_t plane = std::int64_t{new_width} * new_height;
    auto values = host_array<std::uint8_t>(plane * options.channels, "read_image", where);
    for (std::int64_t i = 0; i < plane; ++i) {
        for (int c = 0; c < options.channels; ++c) {
            values[static_cast<std::size_t>(c * plane + i)] = pixels[i * options.channels + c];
        }
    }
    return tensor(values, {options.channels, new_height, new_width}, where);
}

}  // namespace calor::data
