// Kernels compile for CUDA where there is no GPU: every variant that the tests launched on OpenCL devices (recorded by
// CALOR_RECORD_KERNELS) goes through NVRTC, where that library is installed. Each variant is compiled for one
// architecture, the first of each kernel for all of them; what compiled before is known from the cache.
#include "device/cuda/nvrtc.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "device/gpu/dialect.h"
#include "device/gpu/disk_cache.h"

namespace ca = calor;
namespace fs = std::filesystem;

namespace {

constexpr int architectures[] = {75, 80, 90, 100};

struct Variant {
    std::string path, text;
    ca::gpu::KernelFile file{};
    ca::gpu::Source source;
};

/// What gpu_backend.cpp records: path, entry, "wide x y z dtypes", constants, ---, the kernel's file.
bool read(const fs::path& from, Variant& v) {
    std::ifstream in(from, std::ios::binary);
    int wide = 0;
    std::string line;
    if (!std::getline(in, v.path) || !std::getline(in, v.source.entry) || !std::getline(in, line)) return false;
    std::istringstream(line) >> wide >> v.source.threads.x >> v.source.threads.y >> v.source.threads.z >>
        v.source.dtypes;
    v.source.wide_index = wide != 0;
    while (std::getline(in, line) && line != "---") v.source.constants += line + "\n";
    v.text = {std::istreambuf_iterator<char>(in), {}};
    v.file = {v.path.c_str(), v.text.c_str()};
    v.source.file = &v.file;
    return !v.text.empty();
}

void expect_compiles(const Variant& v, int architecture) {
    const std::string text = ca::gpu::translate(v.source, ca::DeviceKind::cuda, true);
    const std::string key =
        ca::gpu::hash_of(text + fmt::format("for sm_{} ", architecture) + ca::cuda::compiler_version());
    if (!ca::gpu::cache_read(key).empty()) return;
    const auto result = ca::cuda::compile(text, v.path, architecture);
    EXPECT_FALSE(result.binary.empty()) << v.path << ", " << v.source.entry << " for sm_" << architecture << "\n"
                                        << v.source.constants << result.log.substr(0, 2000);
    if (!result.binary.empty()) ca::gpu::cache_write(key, "compiles");
}

TEST(Nvrtc, CompilesEveryRecordedVariant) {
    const char* folder = std::getenv("CALOR_RECORDED_KERNELS");
    if (!folder || !fs::exists(folder)) return;  // the tests on OpenCL devices did not run
    if (!ca::cuda::compiler_available()) return;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".variant") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    std::set<std::string> seen;
    std::size_t number = 0;
    for (const fs::path& file : files) {
        Variant v;
        if (!read(file, v)) continue;  // being written
        if (v.path.starts_with("tests/broken")) continue;
        const bool first = !v.path.starts_with("fused/") && seen.insert(v.path + v.source.entry).second;
        for (std::size_t a = 0; a < std::size(architectures); ++a) {
            if (first || a == number % std::size(architectures)) expect_compiles(v, architectures[a]);
        }
        ++number;
    }
}

TEST(Nvrtc, NamesWhatDoesNotCompile) {
    if (!ca::cuda::compiler_available()) {
        EXPECT_TRUE(ca::cuda::compile("", "x", 90).binary.empty());
        return;
    }
    const auto result = ca::cuda::compile("__global__ void f() { nonsense; }", "a/file.kernel", 90);
    EXPECT_TRUE(result.binary.empty());
    EXPECT_NE(result.log.find("nonsense"), std::string::npos);
    EXPECT_NE(result.log.find("a/file.kernel"), std::string::npos);
    // A device that is newer than the compiler gets PTX, an older one a reason.
    EXPECT_NE(ca::cuda::compile("extern \"C\" __global__ void f() {}", "x", 999).binary.find(".target"),
              std::string::npos);
    EXPECT_TRUE(ca::cuda::compile("", "x", 10).binary.empty());
}

TEST(Dialect, ReadsHeadsAndKeepsLines) {
    const ca::gpu::KernelFile file{"a.kernel", R"(
KERNEL(one, IN(X, x),
       OUT(Y, y)) {
    y[0] = x[0];
}
KERNEL(two, SIZE(n), VALUE(COMPUTE(X), v), LAYOUT(RANK, 2, l), STRUCT(S, s), INOUT(X, z))
{
}
)"};
    using Kind = ca::gpu::Parameter::Kind;
    const auto two = ca::gpu::parameters_of(file, "two");
    ASSERT_EQ(two.size(), 5U);
    EXPECT_EQ(two[0].kind, Kind::size);
    EXPECT_EQ(two[1].kind, Kind::value);
    EXPECT_EQ(two[1].type, "COMPUTE(X)");
    EXPECT_EQ(two[2].name, "l");
    EXPECT_EQ(two[4].kind, Kind::inout);
    ca::gpu::Source source;
    source.file = &file;
    source.entry = "one";
    const std::string cuda = ca::gpu::translate(source, ca::DeviceKind::cuda, true);
    const std::string body = cuda.substr(cuda.find("#line 1"));
    EXPECT_EQ(std::ranges::count(body, '\n'), 1 + std::ranges::count(std::string(file.text), '\n'));
    EXPECT_NE(body.find("one(const X* __restrict__ x, Y* __restrict__ y)"), std::string::npos);
    EXPECT_EQ(body.find("two"), std::string::npos);
    const std::string opencl = ca::gpu::translate(source, ca::DeviceKind::opencl, true);
    EXPECT_NE(opencl.find("__global uchar* x_base_, const long x_offset_"), std::string::npos);
    EXPECT_NE(opencl.find("__global const X* x = (__global const X*)(x_base_ + x_offset_);"), std::string::npos);
    const ca::gpu::KernelFile open{"b.kernel", "KERNEL(one, IN(X, x) {\n"}, odd{"c.kernel", "KERNEL(one, OFF(x)) {}\n"};
    EXPECT_ANY_THROW((void)ca::gpu::parameters_of(open, "one"));
    EXPECT_ANY_THROW((void)ca::gpu::parameters_of(odd, "one"));
    EXPECT_ANY_THROW((void)ca::gpu::parameters_of(file, "three"));
}

}  // namespace
