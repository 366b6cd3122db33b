// IDX files: two zero bytes, a type byte, the number of axes, the sizes as big-endian u32, the elements in big-endian
// order.
#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "calor/data.h"
#include "core/fail.h"

namespace calor::data {
namespace {

/// gzopen reads compressed and plain files alike.
class GzipFile {
public:
    GzipFile(const std::string& path, const Where& where) : path_(path), where_(where) {
        file_ = gzopen(path.c_str(), "rb");
        if (!file_) fail("io/open", "read_idx", where, {{"path", path}, {"what", std::strerror(errno)}});
        gzbuffer(file_, 1U << 17U);
    }
    ~GzipFile() { gzclose(file_); }
    GzipFile(const GzipFile&) = delete;
    GzipFile& operator=(const GzipFile&) = delete;

    /// Fills `bytes` bytes or throws.
    void read(void* to, std::int64_t bytes) {
        auto* out = static_cast<char*>(to);
        while (bytes > 0) {
            const auto step = static_cast<unsigned>(std::min<std::int64_t>(bytes, 1 << 24));
            const int got = gzread(file_, out, step);
            if (got < 0) refuse();
            if (got == 0) {
                int code = Z_OK;
                gzerror(file_, &code);
                if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) refuse();
                fail("io/truncated", "read_idx", where_, {{"path", path_}, {"missing", bytes}});
            }
            out += got;
            bytes -= got;
        }
    }
    void expect_end() {
        char extra = 0;
        const int got = gzread(file_, &extra, 1);
        if (got < 0) refuse();
        int code = Z_OK;
        gzerror(file_, &code);
        if (code == Z_BUF_ERROR) {  // the data came whole, but its checksum did not
            fail("io/truncated", "read_idx", where_, {{"path", path_}, {"missing", "some of 8"}});
        }
        if (got > 0)
            fail("io/corrupt", "read_idx", where_,
                 {{"path", path_}, {"what", "more bytes follow than its header says"}});
    }

private:
    [[noreturn]] void refuse() {
        int code = Z_OK;
        const char* message = gzerror(file_, &code);
        fail("io/corrupt", "read_idx", where_,
             {{"path", path_}, {"what", fmt::format("its compressed data is damaged ({})", message)}});
    }
    std::string path_;
    const Where& where_;
    gzFile file_ = nullptr;
};

DType element_type(std::uint8_t code, const std::string& path, const Where& where) {
    switch (code) {
        case 0x08: return u8;
        case 0x09: return i8;
        case 0x0B: return i16;
        case 0x0C: return i32;
        case 0x0D: return f32;
        case 0x0E: return f64;
        default: break;
    }
    fail("io/corrupt", "read_idx", where,
         {{"path", path}, {"what", fmt::format("its element type 0x{:02x} is unknown", code)}});
}

void from_big_endian(std::vector<std::byte>& bytes, std::int64_t size) {
    if (size == 1 || std::endian::native == std::endian::big) return;
    for (std::size_t i = 0; i < bytes.size(); i += static_cast<std::size_t>(size)) {
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                     bytes.begin() + static_cast<std::ptrdiff_t>(i) + size);
    }
}

/// The largest size an honest file of this length can hold: deflate expands at most about 1032 times.
void check_plausible(std::int64_t bytes, const std::string& path, const Where& where) {
    std::error_code error;
    const auto on_disk = std::filesystem::file_size(path, error);
    if (!error && bytes / 1100 > static_cast<std::int64_t>(on_disk)) {
        fail("io/corrupt", "read_idx", where,
             {{"path", path},
              {"what",
               fmt::format("its header asks for {} bytes, more than {} bytes of file can hold", bytes, on_disk)}});
    }
}

std::string existing(const std::string& folder, const std::string& name) {
    const std::string plain = folder + "/" + name;
    return std::filesystem::exists(plain) ? plain : plain + ".gz";
}

void check_pair(const Tensor& images, const Tensor& labels, const std::string& folder, const Where& where) {
    const bool right = images.rank() == 3 && labels.rank() == 1 && images.dtype() == u8 && labels.dtype() == u8 &&
                       images.size(0) == labels.size(0);
    if (right) return;
    fail("io/corrupt", "load_mnist", where,
         {{"path", folder},
          {"what", fmt::format("images {} and labels {} do not belong together", describe(images), describe(labels))}});
}

}  // namespace

Tensor read_idx(const std::string& path, const Where& where) {
    GzipFile file(path, where);
    std::uint8_t magic[4];
    file.read(magic, 4);
    if (magic[0] != 0 || magic[1] != 0) {
        fail("io/corrupt", "read_idx", where,
             {{"path", path}, {"what", "it does not start with the two zero bytes of an IDX file"}});
    }
    const DType dtype = element_type(magic[2], path, where);
    Shape shape;
    for (int a = 0; a < magic[3]; ++a) {
        std::uint8_t size[4];
        file.read(size, 4);
        shape.push_back((std::int64_t{size[0]} << 24) | (size[1] << 16) | (size[2] << 8) | size[3]);
    }
    const std::int64_t bytes = checked_bytes(shape, dtype, where);
    check_plausible(bytes, path, where);
    auto values = host_array<std::byte>(bytes, "read_idx", where);
    file.read(values.data(), bytes);
    file.expect_end();
    from_big_endian(values, size_of(dtype));
    return from_host(values.data(), numel(shape), dtype, shape, where);
}

Mnist load_mnist(const std::string& folder, const Where& where) {
    Mnist m{.train_images = read_idx(existing(folder, "train-images-idx3-ubyte"), where),
            .train_labels = read_idx(existing(folder, "train-labels-idx1-ubyte"), where),
            .test_images = read_idx(existing(folder, "t10k-images-idx3-ubyte"), where),
            .test_labels = read_idx(existing(folder, "t10k-labels-idx1-ubyte"), where)};
    check_pair(m.train_images, m.train_labels, folder, where);
    check_pair(m.test_images, m.test_labels, folder, where);
    return m;
}

}  // namespace calor::data
