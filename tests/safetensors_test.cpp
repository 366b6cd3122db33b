// safetensors: round trips of every dtype, a file written by hand, hostile headers, models.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "calor/calor.h"
#include "gradient_check.h"

namespace calor {
namespace {

using testing::expect_error;

class Folder {
public:
    Folder()
        : path_(std::filesystem::path(::testing::TempDir()) /
                ("calor_io_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directories(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return (path_ / name).string(); }
    std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
    }

private:
    std::filesystem::path path_;
};

void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}
std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
/// A file of this header and these data.
std::string file_of(const std::string& header, const std::string& data = {}) {
    std::string out(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(out.data(), &length, 8);
    return out + header + data;
}

template <class T> std::vector<std::uint8_t> bits(const Tensor& t) {
    const std::vector<T> values = t.to_vector<T>();
    std::vector<std::uint8_t> out(values.size() * sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
    return out;
}
std::vector<std::uint8_t> bits_of(const Tensor& t) {
    switch (t.dtype()) {
        case f64: return bits<double>(t);
        case f32: return bits<float>(t);
        case f16: return bits<float16>(t);
        case bf16: return bits<bfloat16>(t);
        case i64: return bits<std::int64_t>(t);
        case i32: return bits<std::int32_t>(t);
        case i16: return bits<std::int16_t>(t);
        case i8: return bits<std::int8_t>(t);
        case u64: return bits<std::uint64_t>(t);
        case u32: return bits<std::uint32_t>(t);
        case u16: return bits<std::uint16_t>(t);
        case u8: return bits<std::uint8_t>(t);
        case boolean: return bits<std::uint8_t>(t.to(u8));
    }
    return {};
}

NamedTensors samples() {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor floats = tensor<float>({0.0F, -0.0F, 1.5F, -2.25F, inf, -inf, nan, 1e-40F, 3.4e38F}).eval();
    NamedTensors list;
    for (int d = 0; d < dtype_count; ++d) {
        const auto dtype = static_cast<DType>(d);
        const Tensor t =
            is_floating(dtype) ? floats.to(dtype) : tensor<std::int64_t>({0, 1, 2, 255, -1, 1 << 20, -7}).to(dtype);
        list.push_back({"layer." + std::string(name_of(dtype)), t});
    }
    list.push_back({"scalar", scalar(3, f32)});
    list.push_back({"empty", zeros({0, 5})});
    list.push_back({"view", permute(tensor<float>({1, 2, 3, 4, 5, 6}).eval(), {0}) * 2});
    list.push_back(
        {"Grün/\"quoted\"\\\n\t", reshape(tensor<std::int32_t>({1, 2, 3, 4, 5, 6}), {1, 2, 3, 1, 1, 1, 1, 1, 1, 1})});
    return list;
}

TEST(Safetensors, RoundTripIsBitExactForEveryDtype) {
    const Folder folder;
    const std::string path = folder.file("all.safetensors");
    const NamedTensors list = samples();
    const io::Metadata metadata = {{"format", "pt"}, {"note", "line\nbreak, \"quotes\", ü"}};
    io::save(path, list, metadata);
    const io::TensorFile file = io::load(path);
    EXPECT_EQ(file.metadata, metadata);
    ASSERT_EQ(file.tensors.size(), list.size());
    for (const NamedTensor& t : list) {
        const Tensor& back = file.at(t.name);
        EXPECT_EQ(back.dtype(), t.value.dtype()) << t.name;
        EXPECT_EQ(back.shape(), t.value.shape()) << t.name;
        EXPECT_EQ(bits_of(back), bits_of(t.value)) << t.name;
        EXPECT_FALSE(back.tracked());
    }
    const std::string first = read_bytes(path);
    std::uint64_t length = 0;
    std::memcpy(&length, first.data(), 8);
    EXPECT_EQ(length % 8, 0U) << "data are aligned";
    io::save(path, file.tensors, file.metadata);
    EXPECT_EQ(read_bytes(path).size(), first.size());
    EXPECT_EQ(folder.entries(), 1U) << "no temporary file stays";
}

TEST(Safetensors, FileInPythonsLayoutLoads) {
    const Folder folder;
    const std::string path = folder.file("python.safetensors");
    std::string data;
    const float weights[6] = {1, 2, 3, 4, 5, 6};
    const std::int64_t count = 7;
    data.append(reinterpret_cast<const char*>(&count), 8);
    data.append(reinterpret_cast<const char*>(weights), 24);
    data += std::string("\x01\x00\x02", 3);
    // Keys in any order, spaces behind, unsorted offsets: all legal.
    write_bytes(
        path,
        file_of(R"({"__metadata__":{"format":"pt"},"fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                R"("mask":{"data_offsets":[32,35],"dtype":"BOOL","shape":[3]},)"
                R"("none":{"dtype":"U8","shape":[4,0],"data_offsets":[32,32]},)"
                R"("count":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )",
                data));
    const io::TensorFile file = io::load(path);
    EXPECT_EQ(file.at("fc.weight").shape(), (Shape{2, 3}));
    EXPECT_EQ(file.at("fc.weight").to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file.at("count").item<std::int64_t>(), 7);
    EXPECT_EQ(file.at("mask").to(u8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 1}));
    EXPECT_EQ(file.at("none").shape(), (Shape{4, 0}));
    EXPECT_EQ(file.metadata, (io::Metadata{{"format", "pt"}}));
    EXPECT_TRUE(file.contains("count"));
    EXPECT_FALSE(file.contains("weight"));
    expect_error("io/missing", [&] { (void)file.at("weight"); });
}

TEST(Safetensors, EmptyListIsAFile) {
    const Folder folder;
    io::save(folder.file("empty"), {});
    EXPECT_TRUE(io::load(folder.file("empty")).tensors.empty());
}

TEST(Safetensors, HostileHeadersAreRefused) {
    const Folder folder;
    const std::string path = folder.file("bad");
    const auto refuse = [&](const char* code, const std::string& bytes) {
        write_bytes(path, bytes);
        SCOPED_TRACE(bytes.substr(0, 200));
        expect_error(code, [&] { (void)io::load(path); });
    };
    const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
    };
    const std::string four(4, '\0');
    refuse("io/truncated", "");
    refuse("io/truncated", "\x02");
    refuse("io/truncated", std::string("\xff\xff\0\0\0\0\0\0{}", 10));
    refuse("io/header-size", std::string(8, '\xff') + "{}");
    refuse("io/header-size", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}");  // 100,000,001
    for (const char* text :
         {"", "[]", " {}", "{", "{}x", "{\"w\":", "null", "{\"w\":null}", "{\"w\":[]}", "{\"w\":1}", "{\"w\":{}}",
          "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":\"a\"}", "{\"__metadata__\":{\"a\":{}}}",
          R"({"w":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", R"({"w":{"dtype":"F32","shape":[]}})",
          R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,4],"extra":1}})"}) {
        refuse("io/header", file_of(text, four));
    }
    refuse("io/header", file_of("{\"\xff\":1}"));
    refuse("io/header", file_of("{\"\xc0\xaf\":1}"));
    refuse("io/header", file_of(std::string(100000, '[')));
    refuse("io/header", file_of(R"({"w":{"dtype":"F32","shape":)" + std::string(100000, '[')));
    std::string nested;
    for (int i = 0; i < 50000; ++i) nested += "{\"a\":";
    refuse("io/header", file_of(nested));
    refuse("io/header", file_of(entry("F32", "[-1]", "[0,4]"), four));
    refuse("io/header", file_of(entry("F32", "[1.0]", "[0,4]"), four));
    refuse("io/header", file_of(entry("F32", "[1]", "[-4,0]"), four));
    refuse("io/header", file_of(entry("F32", "[1]", "[0,4,8]"), four));
    refuse("io/header", file_of(entry("F32", "[1]", "[4]"), four));
    refuse("io/header", file_of(entry("F32", "[18446744073709551615]", "[0,4]"), four));
    refuse("io/header", file_of(entry("F32", "[1e400]", "[0,4]"), four));
    std::string many = "[1";
    for (int i = 0; i < 5000; ++i) many += ",1";
    refuse("io/header", file_of(entry("F32", many + "]", "[0,4]"), four));
    refuse("io/header", file_of(entry("F32", "[1]", "[0,4]"), four + "rest"));
    refuse("io/element-type", file_of(entry("F8_E4M3", "[4]", "[0,4]"), four));
    refuse("io/element-type", file_of(entry("f32", "[1]", "[0,4]"), four));
    refuse("io/offsets", file_of(entry("F32", "[2]", "[0,4]"), four));
    refuse("io/offsets", file_of(entry("F32", "[1]", "[4,0]"), four));
    refuse("io/offsets", file_of(entry("F32", "[1]", "[1,5]"), four + "x"));
    refuse("io/offsets", file_of(entry("F32", "[4611686018427387904,4]", "[0,0]")));
    refuse("io/offsets", file_of(entry("F64", "[9223372036854775807]", "[0,9223372036854775807]"), four));
    refuse("io/truncated", file_of(entry("U8", "[9223372036854775807]", "[0,9223372036854775807]"), four));
    refuse("io/truncated", file_of(entry("F32", "[2]", "[0,8]"), four));
    const auto two = [](const std::string& a, const std::string& b, const std::string& name = "b") {
        return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a + R"(},")" + name +
               R"(":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
    };
    refuse("io/offsets", file_of(two("[0,2]", "[1,3]"), four));
    refuse("io/offsets", file_of(two("[0,2]", "[0,2]"), four));
    refuse("io/offsets", file_of(two("[0,2]", "[3,5]"), four + "x"));
    refuse("io/duplicate", file_of(two("[0,2]", "[2,4]", "a"), four));
    refuse("io/duplicate", file_of(R"({"__metadata__":{"a":"1","a":"2"}})"));
    refuse("io/duplicate", file_of(R"({"w":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
}

TEST(Safetensors, EveryDamagedByteLoadsOrThrows) {
    const Folder folder;
    const std::string path = folder.file("fuzz");
    io::save(path, {{"a.weight", tensor<float>({1, 2, 3})}, {"b", tensor<std::uint8_t>({1, 2}).to(boolean)}},
             {{"k", "v"}});
    const std::string good = read_bytes(path);
    std::int64_t refused = 0, loaded = 0;
    const auto attempt = [&](const std::string& bytes) {
        write_bytes(path, bytes);
        try {
            (void)io::load(path);
            ++loaded;
        } catch (const Error& e) {
            EXPECT_FALSE(e.code().starts_with("internal")) << e.what();
            ++refused;
        }
    };
    for (std::size_t i = 0; i < good.size(); ++i) {
        attempt(good.substr(0, i));
        for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ change);
            attempt(bad);
        }
    }
    EXPECT_GT(refused, 1000);
    EXPECT_GT(loaded, 50);
}

TEST(Safetensors, FilesThatCannotBeReadOrWritten) {
    const Folder folder;
    expect_error("io/open", [&] { (void)io::load(folder.file("missing")); });
    expect_error("io/open", [&] { (void)io::load(folder.file("")); });
    const std::string pipe = folder.file("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_error("io/open", [&] { (void)io::load(pipe); });
    expect_error("io/write", [&] { io::save(folder.file("no/such/a"), {}); });
    const std::string path = folder.file("kept");
    io::save(path, {{"w", ones({2})}});
    const std::string before = read_bytes(path);
    expect_error("io/name", [&] { io::save(path, {{"w", ones({2})}, {"w", ones({3})}}); });
    expect_error("io/name", [&] { io::save(path, {{"__metadata__", ones({2})}}); });
    expect_error("io/name", [&] { io::save(path, {{"\xff", ones({2})}}); });
    expect_error("io/name", [&] { io::save(path, {{"\xed\xa0\x80", ones({2})}}); });
    expect_error("io/name", [&] { io::save(path, {}, {{"a", "1"}, {"a", "2"}}); });
    expect_error("io/name", [&] { io::save(path, {}, {{"a", "\xf8"}}); });
    expect_error("tensor/undefined", [&] { io::save(path, {{"w", Tensor()}}); });
    std::filesystem::create_directory(folder.file("folder"));
    expect_error("io/write", [&] { io::save(folder.file("folder"), {}); });
    EXPECT_EQ(read_bytes(path), before);
    EXPECT_EQ(folder.entries(), 3U) << "pipe, kept, folder";
}

struct Layer {
    nn::Parameter weight{ones({2, 3})};
    nn::Parameter bias{zeros({2})};
    nn::Buffer count{scalar(0, i64)};
    CALOR_FIELDS(weight, bias, count)
};
struct Net {
    Layer first;
    std::vector<Layer> blocks = std::vector<Layer>(2);
    CALOR_FIELDS(first, blocks)
};

TEST(Safetensors, ModelsSaveAndLoadByName) {
    const Folder folder;
    const std::string path = folder.file("model");
    Net net;
    net.blocks[1].weight.set(ones({2, 3}) * 7);
    net.blocks[0].count.set(scalar(5, i64));
    io::save_model(path, net, {{"epoch", "3"}});
    Net other;
    const Tensor before = other.first.weight;
    EXPECT_EQ(io::load_model(path, other), (io::Metadata{{"epoch", "3"}}));
    EXPECT_EQ(other.blocks[1].weight.value().to_vector<float>(), std::vector<float>(6, 7));
    EXPECT_EQ(other.blocks[0].count.value().item<std::int64_t>(), 5);
    EXPECT_TRUE(other.first.weight.value().tracked());
    EXPECT_FALSE(other.first.count.value().tracked());
}

TEST(Safetensors, WrongFilesForAModelNameWhatIsWrong) {
    const Folder folder;
    const std::string path = folder.file("model");
    const auto message = [&](Net& net, const io::LoadOptions& options = {}) -> std::string {
        try {
            io::load_model(path, net, options);
        } catch (const IoError& e) {
            return e.code() + ": " + e.message();
        }
        return "loaded";
    };
    const auto holds = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    Net net;
    NamedTensors list = nn::named_tensors(nn::state(net));
    for (NamedTensor& t : list) {
        if (is_floating(t.value.dtype())) t.value = t.value + 1;
    }
    NamedTensors changed = list;
    changed.erase(changed.begin());
    io::save(path, changed);
    holds(message(net), "io/missing: ");
    holds(message(net), "first.weight");
    EXPECT_EQ(net.first.bias.value().to_vector<float>(), std::vector<float>(2, 0)) << "nothing was changed";
    EXPECT_EQ(message(net, {.strict = false}), "loaded");
    EXPECT_EQ(net.first.bias.value().to_vector<float>(), std::vector<float>(2, 1));
    changed = list;
    changed.push_back({"head.weight", ones({1})});
    io::save(path, changed);
    holds(message(net), "io/unexpected: ");
    holds(message(net), "head.weight");
    EXPECT_EQ(message(net, {.strict = false}), "loaded");
    changed = list;
    changed[0].value = ones({3, 2});
    changed[2].value = scalar(1, f32);
    io::save(path, changed);
    holds(message(net, {.strict = false}), "io/mismatch: ");
    holds(message(net, {.strict = false}), "first.weight (f32[3, 2] in the file, f32[2, 3] in the network)");
    holds(message(net, {.strict = false}), "first.count");
    for (NamedTensor& t : list) t.value = is_floating(t.value.dtype()) ? t.value.to(f16) : t.value.to(i32);
    io::save(path, list);
    EXPECT_EQ(message(net), "loaded") << "dtypes of one kind are converted";
    EXPECT_EQ(net.first.weight.dtype(), f32);
    EXPECT_EQ(net.first.count.dtype(), i64);
}

}  // namespace
}  // namespace calor
