// IDX files and MNIST, damaged files, images, the loader.
#include "calor/data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "calor/creation.h"
#include "calor/view.h"
#include "gradient_check.h"

namespace ca = calor;
namespace fs = std::filesystem;
using ca::testing::expect_error;

namespace {

const std::string mnist_folder = CALOR_SOURCE_DIR "/data/mnist";

class Files : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("calor-data-" + std::to_string(::getpid()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& bytes) {
        std::ofstream(folder_ / name, std::ios::binary) << bytes;
        return folder_ / name;
    }
    static std::string idx(char type, std::initializer_list<int> sizes, const std::string& values) {
        std::string bytes{'\0', '\0', type, static_cast<char>(sizes.size())};
        for (const int s : sizes) {
            for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((s >> shift) & 0xff);
        }
        return bytes + values;
    }
    static std::string read(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    fs::path folder_;
};

TEST_F(Files, MnistHasItsSizes) {
    const auto m = ca::data::load_mnist(mnist_folder);
    EXPECT_EQ(m.train_images.shape(), (ca::Shape{60000, 28, 28}));
    EXPECT_EQ(m.test_images.shape(), (ca::Shape{10000, 28, 28}));
    const auto labels = m.train_labels.data<std::uint8_t>();
    EXPECT_EQ(std::vector<int>(labels.begin(), labels.begin() + 5), (std::vector<int>{5, 0, 4, 1, 9}));
    const auto test = m.test_labels.data<std::uint8_t>();
    EXPECT_EQ(std::accumulate(test.begin(), test.end(), 0), 44434);
}

TEST_F(Files, IdxReadsEveryElementType) {
    EXPECT_EQ(ca::data::read_idx(write("b", idx(0x08, {2, 2}, {1, 2, 3, '\xff'}))).to_vector<std::uint8_t>(),
              (std::vector<std::uint8_t>{1, 2, 3, 255}));
    EXPECT_EQ(
        ca::data::read_idx(write("s", idx(0x0B, {2}, {'\x01', '\x02', '\xff', '\xfe'}))).to_vector<std::int16_t>(),
        (std::vector<std::int16_t>{258, -2}));
    EXPECT_EQ(ca::data::read_idx(write("f", idx(0x0D, {1}, {'\x3f', '\x80', 0, 0}))).to_vector<float>(),
              std::vector<float>{1.0F});
    EXPECT_EQ(ca::data::read_idx(write("e", idx(0x08, {0, 28}, ""))).shape(), (ca::Shape{0, 28}));
}

TEST_F(Files, IdxRefusesWhatIsNotOne) {
    expect_error("io/open", [&] { (void)ca::data::read_idx((folder_ / "none").string()); });
    expect_error("io/truncated", [&] { (void)ca::data::read_idx(write("empty", "")); });
    expect_error("io/corrupt", [&] { (void)ca::data::read_idx(write("text", "hello, world")); });
    expect_error("io/corrupt", [&] { (void)ca::data::read_idx(write("type", idx(0x77, {1}, "x"))); });
    expect_error("io/truncated", [&] { (void)ca::data::read_idx(write("short", idx(0x08, {5}, "1234"))); });
    expect_error("io/corrupt", [&] { (void)ca::data::read_idx(write("long", idx(0x08, {3}, "1234"))); });
    expect_error("io/corrupt", [&] { (void)ca::data::read_idx(write("huge", idx(0x08, {0x7fffffff}, "1234"))); });
    expect_error("shape/overflow", [&] {
        (void)ca::data::read_idx(write("overflow", idx(0x08, {0x7fffffff, 0x7fffffff, 0x7fffffff}, "1")));
    });
}

TEST_F(Files, DamagedCompressedFilesAreErrors) {
    const std::string whole = read(mnist_folder + "/t10k-labels-idx1-ubyte.gz");
    for (const std::size_t length :
         {std::size_t{3}, std::size_t{11}, std::size_t{200}, whole.size() / 2, whole.size() - 9}) {
        EXPECT_THROW((void)ca::data::read_idx(write("cut.gz", whole.substr(0, length))), ca::IoError) << length;
    }
    int refused = 0;
    for (std::size_t at = 20; at < whole.size(); at += 97) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
        try {
            (void)ca::data::read_idx(write("damaged.gz", damaged));
        } catch (const ca::IoError&) {
            ++refused;
        }
    }
    EXPECT_EQ(refused, static_cast<int>((whole.size() - 20 + 96) / 97));  // the checksum sees every one
}

TEST_F(Files, MnistFilesMustBelongTogether) {
    for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"})
        write(name, idx(0x08, {2, 1, 1}, "ab"));
    for (const char* name : {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"}) write(name, idx(0x08, {3}, "abc"));
    expect_error("io/corrupt", [&] { (void)ca::data::load_mnist(folder_.string()); });
    expect_error("io/open", [&] { (void)ca::data::load_mnist((folder_ / "nowhere").string()); });
}

TEST_F(Files, ImagesLoadAndBadOnesAreErrors) {
    int found = 0;
    for (const auto& entry : fs::directory_iterator(mnist_folder + "/samples")) {
        if (entry.path().extension() != ".png") continue;
        EXPECT_EQ(ca::data::read_image(entry.path().string(), {.channels = 1}).shape(), (ca::Shape{1, 28, 28}));
        EXPECT_EQ(ca::data::read_image(entry.path().string()).shape(), (ca::Shape{3, 28, 28}));
        EXPECT_EQ(ca::data::read_image(entry.path().string(), {.height = 14, .width = 7}).shape(),
                  (ca::Shape{3, 14, 7}));
        ++found;
    }
    EXPECT_GE(found, 3);
    expect_error("io/image", [&] { (void)ca::data::read_image(write("x.png", "not an image")); });
    expect_error("io/open", [&] { (void)ca::data::read_image((folder_ / "none.png").string()); });
    expect_error("value/option", [&] { (void)ca::data::read_image(write("x.png", ""), {.channels = 2}); });
    expect_error("value/option", [&] { (void)ca::data::read_image(write("x.png", ""), {.height = -1}); });
}

TEST_F(Files, ImagesAreWrittenAndReadBack) {
    const std::string path = (folder_ / "picture.png").string();
    const auto colours = ca::tensor(std::vector<std::uint8_t>{0, 50, 100, 150, 200, 250, 1, 2, 3, 4, 5, 6}, {3, 2, 2});
    ca::data::write_image(path, colours);
    EXPECT_EQ(ca::data::read_image(path).to_vector<std::uint8_t>(), colours.to_vector<std::uint8_t>());
    // Floats are clamped to [0, 1], NaN is black; flipped and transposed views are written as they look.
    const auto grey = ca::flip(ca::tensor({{0.5F, std::nanf("")}, {-1.F, 2.F}}), {1});
    ca::data::write_image(path, grey);
    EXPECT_EQ(ca::data::read_image(path, {.channels = 1}).to_vector<std::uint8_t>(),
              (std::vector<std::uint8_t>{0, 128, 255, 0}));

    expect_error("shape/mismatch", [&] { ca::data::write_image(path, ca::zeros({2, 4, 4})); });
    expect_error("shape/mismatch", [&] { ca::data::write_image(path, ca::zeros({3, 0, 4})); });
    expect_error("shape/mismatch", [&] { ca::data::write_image(path, ca::zeros({4})); });
    expect_error("dtype/unsupported", [&] { ca::data::write_image(path, ca::zeros({4, 4}, ca::i32)); });
    expect_error("io/write", [&] { ca::data::write_image((folder_ / "none" / "x.png").string(), grey); });
    EXPECT_EQ(ca::data::read_image(path).shape(), (ca::Shape{3, 2, 2}));  // the old file is still whole
}

std::shared_ptr<ca::data::TensorDataset> numbers(std::int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 0.0F);
    std::vector<std::int64_t> targets(values.begin(), values.end());
    return std::make_shared<ca::data::TensorDataset>(ca::tensor(values, {n, 1}), ca::tensor(targets));
}

std::vector<std::int64_t> run(ca::data::Loader& loader) {
    std::vector<std::int64_t> seen;
    for (auto [inputs, targets] : loader) {
        const auto x = inputs.to_vector<float>();
        const auto y = targets.to_vector<std::int64_t>();
        for (std::size_t i = 0; i < y.size(); ++i) {
            EXPECT_EQ(static_cast<std::int64_t>(x[i]), y[i]);
            seen.push_back(y[i]);
        }
    }
    return seen;
}

TEST(Loader, GivesEverySampleOnce) {
    for (const std::int64_t prefetch : {0, 1, 3}) {
        ca::data::Loader loader(numbers(103), {.batch_size = 10, .shuffle = true, .seed = 7, .prefetch = prefetch});
        EXPECT_EQ(loader.size(), 11);
        const auto first = run(loader), second = run(loader);
        EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 103U);
        EXPECT_EQ(first.size(), 103U);
        EXPECT_NE(first, second);
        ca::data::Loader again(numbers(103), {.batch_size = 10, .shuffle = true, .seed = 7, .prefetch = 2});
        EXPECT_EQ(run(again), first);
    }
}

TEST(Loader, SeekResumesExactly) {
    ca::data::Loader whole(numbers(50), {.batch_size = 8, .shuffle = true, .seed = 3});
    (void)run(whole);
    const auto second = run(whole);
    ca::data::Loader resumed(numbers(50), {.batch_size = 8, .shuffle = true, .seed = 3});
    resumed.seek(1, 2);
    EXPECT_EQ(run(resumed), std::vector<std::int64_t>(second.begin() + 16, second.end()));
}

TEST(Loader, StopsInTheMiddleAndStartsAnew) {
    ca::data::Loader loader(numbers(1000), {.batch_size = 1, .prefetch = 4});
    for (int i = 0; i < 20; ++i) {
        for (auto [inputs, targets] : loader) {
            EXPECT_EQ(targets.item<std::int64_t>(), 0);
            break;
        }
    }
}

TEST(Loader, DropsLastAndRefusesBadOptions) {
    ca::data::Loader loader(numbers(10), {.batch_size = 4, .drop_last = true});
    EXPECT_EQ(loader.size(), 2);
    EXPECT_EQ(run(loader).size(), 8U);
    expect_error("value/option", [] { (void)ca::data::Loader(numbers(3), {.batch_size = 0}); });
    expect_error("value/option", [] { (void)ca::data::Loader(numbers(3), {.prefetch = -1}); });
    expect_error("tensor/undefined", [] { (void)ca::data::Loader(nullptr, {}); });
    expect_error("shape/mismatch", [] { (void)ca::data::TensorDataset(ca::ones({3, 1}), ca::ones({4})); });
}

class Endless final : public ca::data::Dataset {
public:
    std::int64_t size() const override { return std::int64_t{1} << 50; }
    ca::data::Batch batch(std::span<const std::int64_t>) const override { return {}; }
};

TEST(Loader, RefusesMoreSamplesThanMemoryCanOrder) {
    for (const bool shuffle : {false, true}) {
        ca::data::Loader loader(std::make_shared<Endless>(), {.batch_size = 1, .shuffle = shuffle});
        expect_error("memory/exhausted", [&] { (void)loader.begin(); });
    }
}

class Failing final : public ca::data::Dataset {
public:
    std::int64_t size() const override { return 5; }
    ca::data::Batch batch(std::span<const std::int64_t> samples) const override {
        if (samples[0] == 3) throw std::runtime_error("sample 3 is bad");
        return {ca::ones({1}), ca::ones({1})};
    }
};

TEST(Loader, PassesErrorsOfItsThreadOn) {
    ca::data::Loader loader(std::make_shared<Failing>(), {.batch_size = 1});
    int got = 0;
    EXPECT_THROW(
        {
            for (auto [inputs, targets] : loader) ++got;
        },
        std::runtime_error);
    EXPECT_EQ(got, 3);
}

TEST(Loader, EmptyDatasetHasNoBatches) {
    ca::data::Loader loader(numbers(0), {});
    EXPECT_EQ(loader.size(), 0);
    EXPECT_TRUE(run(loader).empty());
}

}  // namespace
