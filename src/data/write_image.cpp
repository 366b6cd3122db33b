// Images to PNG files through stb_image_write; the file appears whole or not at all.
#include <vector>

#include "calor/data.h"
#include "calor/elementwise.h"
#include "calor/view.h"
#include "core/fail.h"
#include "io/file.h"

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace calor::data {

namespace {

constexpr std::int64_t largest = 65536;  // of each axis; also keeps stb's int arithmetic in range

void check(const Tensor& image, const Where& where) {
    const Shape& shape = image.shape(where);
    const bool grey_or_colour = shape.rank() == 2 || (shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3));
    const std::int64_t height = grey_or_colour ? shape[shape.rank() - 2] : 0;
    const std::int64_t width = grey_or_colour ? shape[shape.rank() - 1] : 0;
    const bool fits =
        height >= 1 && width >= 1 && height <= largest && width <= largest && height * width <= std::int64_t{1} << 28;
    if (!fits) {
        fail("shape/mismatch", "write_image", where,
             {{"argument", "image"},
              {"got", to_string(shape)},
              {"expected", "[1 or 3, height, width] or [height, width], sizes from 1 to 65536"},
              {"help", "channels come first"}});
    }
    if (image.dtype() != u8 && !is_floating(image.dtype())) {
        fail("dtype/unsupported", "write_image", where,
             {{"argument", "image"}, {"got", image.dtype()}, {"expected", "u8 or a floating dtype"}});
    }
}

}  // namespace

void write_image(const std::string& path, const Tensor& image, const Where& where) {
    check(image, where);
    Tensor pixels = image.rank() == 2 ? unsqueeze(image, 0) : image;
    const std::int64_t channels = pixels.size(0), height = pixels.size(1), width = pixels.size(2);
    if (pixels.dtype() != u8) {
        // NaN is black (the cast makes it 0): a picture has no better colour for it.
        pixels = round(clamp(pixels.detach().to(f32), 0.0, 1.0) * 255).to(u8);
    }
    const std::vector<std::uint8_t> values = contiguous(permute(pixels, {1, 2, 0})).to_vector<std::uint8_t>();
    std::vector<unsigned char> png;
    const auto put = [](void* to, void* bytes, int count) {
        const auto* first = static_cast<unsigned char*>(bytes);
        static_cast<std::vector<unsigned char>*>(to)->assign(first, first + count);
    };
    if (!stbi_write_png_to_func(put, &png, static_cast<int>(width), static_cast<int>(height),
                                static_cast<int>(channels), values.data(), static_cast<int>(width * channels))) {
        fail("io/write", "write_image", where, {{"path", path}, {"what", "the encoder ran out of memory"}});
    }
    io::OutputFile file(path, where);
    file.write(png.data(), std::ssize(png));
    file.commit();
}

}  // namespace calor::data
