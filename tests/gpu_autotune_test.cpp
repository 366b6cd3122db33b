// Choices between kernels: when they are measured, where they are remembered, and that they change no bits.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/gpu/autotune.h"
#include "device/opencl/opencl_driver.h"
#include "gpu_check.h"
#include "gradient_check.h"

namespace ca = calor;
using ca::gpu::Chosen;
using ca::gpu::GpuBackend;
using ca::gpu::Tuning;
using ca::testing::gpus;

namespace {

/// An environment variable, as it was before when the scope ends.
class Environment {
public:
    Environment(const char* name, const std::string& value) : name_(name), before_(std::getenv(name)) {
        if (before_) kept_ = before_;
        setenv(name, value.c_str(), 1);
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;
    ~Environment() { before_ ? setenv(name_, kept_.c_str(), 1) : unsetenv(name_); }

private:
    const char* name_;
    const char* before_;
    std::string kept_;
};

/// A folder of its own for the cache, gone at the end.
struct CacheFolder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("calor-autotune-" + std::to_string(getpid()));
    Environment environment{"CALOR_CACHE", path.string()};
    ~CacheFolder() { std::filesystem::remove_all(path); }
};

/// Of three candidates the device refuses the first and the last.
Chosen choose_the_second(GpuBackend& device, const Tuning& tuning, int& runs) {
    ca::Error::Parts parts;
    parts.code = "kernel/launch";
    parts.kind = ca::ErrorKind::kernel;
    const ca::KernelError refusal(parts);
    return ca::gpu::choose(device, tuning, [&](std::size_t i) {
        ++runs;
        if (i != 1) throw refusal;
    });
}

Tuning three(const std::string& problem) { return {"test", "text", problem, 1e12, {"a", "b", "c"}}; }

TEST(Autotune, RemembersInTheProcessAndOnDisk) {
    const CacheFolder folder;
    const Environment always("CALOR_AUTOTUNE", "always");
    for (const ca::Device d : gpus()) {
        GpuBackend& device = *ca::backend(d).gpu();
        const Tuning tuning = three("remembered by " + ca::to_string(d));
        int runs = 0;
        const Chosen first = choose_the_second(device, tuning, runs);
        EXPECT_EQ(first.index, 1U);
        EXPECT_TRUE(first.measured);
        EXPECT_GE(runs, 4);
        EXPECT_EQ(ca::kernel_cache().choices, 1);
        runs = 0;
        EXPECT_EQ(choose_the_second(device, tuning, runs).index, 1U);
        EXPECT_EQ(runs, 0);
        EXPECT_EQ(ca::clear_kernel_cache(), 1);
    }
    auto drivers = ca::opencl::drivers();
    if (drivers.empty()) return;
    // Two devices of a model share what is on disk; what is there but is no candidate is measured again.
    auto* one = new GpuBackend({ca::DeviceKind::opencl, 71}, std::move(drivers[0]));
    auto* two = new GpuBackend({ca::DeviceKind::opencl, 72}, std::move(ca::opencl::drivers()[0]));
    int runs = 0;
    EXPECT_EQ(choose_the_second(*one, three("shared"), runs).index, 1U);
    runs = 0;
    EXPECT_EQ(choose_the_second(*two, three("shared"), runs).index, 1U);
    EXPECT_EQ(runs, 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
        std::ofstream(entry.path(), std::ios::binary) << "no choice";
    }
    auto* third = new GpuBackend({ca::DeviceKind::opencl, 73}, std::move(ca::opencl::drivers()[0]));
    EXPECT_EQ(choose_the_second(*third, three("shared"), runs).index, 1U);
    EXPECT_GE(runs, 4);
}

TEST(Autotune, MeasuresOnlyWhereItMatters) {
    const CacheFolder folder;
    for (const ca::Device d : gpus()) {
        GpuBackend& device = *ca::backend(d).gpu();
        int runs = 0;
        {
            const Environment off("CALOR_AUTOTUNE", "0");
            const Chosen chosen = choose_the_second(device, three("off"), runs);
            EXPECT_EQ(chosen.index, 0U);
            EXPECT_FALSE(chosen.measured);
        }
        const Environment automatic("CALOR_AUTOTUNE", "1");
        Tuning small = three("small");
        small.operations = 1e3;
        EXPECT_EQ(choose_the_second(device, small, runs).index, 0U);
        Tuning alone = three("alone");
        alone.candidates = {"a"};
        EXPECT_EQ(choose_the_second(device, alone, runs).index, 0U);
        EXPECT_EQ(runs, 0);
        // A processor is no GPU: tests that run on one see the default.
        EXPECT_EQ(choose_the_second(device, three("big"), runs).index, device.traits().processor ? 0U : 1U);
    }
}

TEST(Autotune, TilesOfProductsGiveTheSameBits) {
    const CacheFolder folder;
    const Environment own("CALOR_DISABLE", "cublaslt");
    for (const ca::Device d : gpus()) {
        const ca::OnDevice scope(d);
        const ca::Tensor a = ca::normal({70, 700}).eval(), b = ca::normal({700, 50}).eval();
        const auto product = [&](const char* mode, std::string& plan) {
            const Environment setting("CALOR_AUTOTUNE", mode);
            const ca::Tensor c = ca::matmul(a, b);
            plan = ca::explain_plan(c);
            return c.to_vector<float>();
        };
        std::string plain, measured;
        const auto expected = product("0", plain), got = product("always", measured);
        EXPECT_EQ(expected, got);
        EXPECT_NE(plain.find("gemm (tile "), std::string::npos) << plain;
        EXPECT_EQ(plain.find("measured"), std::string::npos) << plain;
        EXPECT_NE(measured.find(", measured"), std::string::npos) << measured;
        EXPECT_EQ(ca::kernel_cache().choices, 1);
        (void)ca::clear_kernel_cache();
    }
}

TEST(Events, TellTheTimeBetweenThem) {
    for (const ca::Device d : {ca::Device{}, gpus().empty() ? ca::Device{} : gpus()[0]}) {
        ca::Stream& stream = ca::backend(d).stream();
        const auto first = stream.record_timed();
        const ca::Tensor x = (ca::ones({1 << 16}).to(d) * 2).eval();
        const auto second = stream.record_timed();
        const double time = second->milliseconds_since(*first);
        EXPECT_TRUE(second->done());
        EXPECT_GT(time, 0);
        EXPECT_LT(time, 1e6);
    }
}

}  // namespace
