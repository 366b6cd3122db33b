// GPU devices: memory, copies, launches and their errors, the words of the dialect, the cache of kernels.
#include <dlpack/dlpack.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "device/gpu/disk_cache.h"
#include "device/gpu/launch.h"
#include "device/opencl/opencl_driver.h"
#include "gpu_check.h"
#include "gradient_check.h"
#include "graph/node.h"

namespace ca = calor;
using ca::Device;
using ca::DType;
using ca::Tensor;
using ca::View;
using ca::gpu::KernelFile;
using ca::gpu::Launch;
using ca::testing::expect_error;
using ca::testing::gpu_of;
using ca::testing::gpus;
using ca::testing::host;

namespace {

const ca::Where here = ca::Where::current();

std::vector<float> counted(std::int64_t n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    std::iota(v.begin(), v.end(), 1.0F);
    return v;
}

// ---- devices ----

TEST(Devices, AreListedByName) {
    for (const Device d : gpus()) {
        EXPECT_EQ(ca::device_named(ca::to_string(d)), d);
        const auto info = ca::devices();
        const auto it = std::ranges::find(info, d, &ca::DeviceInfo::device);
        ASSERT_NE(it, info.end());
        EXPECT_FALSE(it->description.empty());
        EXPECT_FALSE(it->driver.empty());
        EXPECT_GT(it->memory, 0);
    }
    expect_error("device/unavailable", [] { (void)ca::device_named("opencl:99"); });
    expect_error("device/unavailable", [] { ca::set_default_device({ca::DeviceKind::cuda, 99}); });
}

TEST(Devices, DefaultDecidesWhereTensorsAreMade) {
    const Device before = ca::default_device();
    for (const Device d : gpus()) {
        {
            const ca::OnDevice scope(d);
            EXPECT_EQ(ca::default_device(), d);
            EXPECT_EQ(ca::zeros({2}).device(), d);
            EXPECT_EQ(ca::tensor(std::vector<float>{1}).device(), d);
            std::thread([&] { EXPECT_EQ(ca::default_device(), before); }).join();
        }
        ca::set_default_device(d);
        EXPECT_EQ(ca::ones({3}).device(), d);
        EXPECT_EQ(ca::ones_like(ca::ones({3}).to(host)).device(), host);
        ca::set_default_device(before);
        EXPECT_EQ(ca::ones({3}).device(), before);
    }
}

TEST(Devices, AreNotMixed) {
    for (const Device d : gpus()) {
        const Tensor x = ca::ones({2}).to(host), y = ca::ones({2}).to(d);
        expect_error("device/mismatch", [&] { (void)(x + y); });
        EXPECT_EQ((y * 2 + 1).device(), d);
        EXPECT_EQ((1 - x).device(), host);
        EXPECT_EQ((y * 2 + 1).to_vector<float>(), (std::vector<float>{3, 3}));
    }
}

TEST(Devices, RefuseOperationsWithoutAKernel) {
    static const ca::graph::Operation operation{.name = "homebody", .infer = [](const ca::graph::InferContext& c) {
                                                    return ca::graph::Specs{{c.inputs[0].shape(), ca::f32}};
                                                }};
    for (const Device d : gpus()) {
        const Tensor x = ca::graph::record(operation, {}, {ca::ones({2}).to(d)}, here);
        expect_error("device/unsupported", [&] { (void)x.eval(); });
    }
}

// ---- copies ----

TEST(Copies, GoThereAndBack) {
    for (const Device d : gpus()) {
        for (const std::int64_t n : {0, 1, 3, 1000, 1 << 20, 3000017}) {
            const auto values = counted(n);
            const Tensor x = ca::from_host(values.data(), n, ca::f32, {n}, host);
            const Tensor there = x.to(d);
            EXPECT_EQ(there.device(), d);
            EXPECT_EQ(there.to_vector<float>(), values);
            EXPECT_EQ(there.to(host).to_vector<float>(), values);
            EXPECT_TRUE(std::ranges::equal(there.data<float>(), values));
        }
        EXPECT_EQ(ca::full({2, 2}, 7, ca::i64).to(d).to_vector<std::int64_t>(),
                  (std::vector<std::int64_t>{7, 7, 7, 7}));
        EXPECT_EQ(ca::tensor(std::vector<double>{2.5}).to(d).item<double>(), 2.5);
        EXPECT_EQ(ca::to_string(ca::tensor(std::vector<float>{1, 2}).to(d)), "tensor([1., 2.])");
    }
}

TEST(Copies, BetweenGpus) {
    for (const Device a : gpus()) {
        for (const Device b : gpus()) {
            const Tensor x = (ca::ones({1000}).to(a) * 3).to(b) + 1;
            EXPECT_EQ(x.device(), b);
            EXPECT_EQ(x.to_vector<float>()[999], 4.0F);
        }
    }
}

TEST(Copies, HaveAGradient) {
    for (const Device d : gpus()) {
        const Tensor x = ca::tensor(std::vector<float>{1, 2, 3}).to(host).requires_grad();
        const Tensor y = (x.to(d) * x.to(d)).to(host);
        EXPECT_EQ(ca::backward(ca::sum(y))[x].to_vector<float>(), (std::vector<float>{2, 4, 6}));
    }
}

TEST(Copies, ReadEveryLayout) {
    for (const Device d : gpus()) {
        const auto values = counted(2 * 3 * 4 * 5);
        const Tensor x = ca::from_host(values.data(), 120, ca::f32, {2, 3, 4, 5}, host), y = x.to(d);
        const auto same = [&](auto f) {
            EXPECT_EQ(f(y).template to_vector<float>(), f(x).template to_vector<float>());
        };
        same([](const Tensor& t) { return ca::permute(t, {3, 1, 0, 2}); });
        same([](const Tensor& t) { return ca::flip(t, {1, 3}); });
        same([](const Tensor& t) { return ca::slice(t, 2, {1, 4, 2}); });
        same([](const Tensor& t) { return ca::select(t, 1, -1); });
        same([](const Tensor& t) { return ca::expand(ca::select(t, 3, 2), {6, 2, 3, 4}); });
        EXPECT_EQ(ca::select(ca::reshape(y, {120}), 0, 77).item<float>(), 78.0F);
    }
}

TEST(Copies, MoveEveryLayoutOnTheDevice) {
    for (const Device d : gpus()) {
        for (const DType t : {ca::f32, ca::bf16}) {
            if (t == ca::f64 && !gpu_of(d).traits().f64) continue;
            const Tensor x = (ca::reshape(ca::testing::numbers(3 * 40 * 36), {3, 40, 36}).to(host)).to(t).eval();
            const Tensor y = x.to(d);
            const auto same = [&](auto f) {
                EXPECT_EQ(ca::testing::doubles(ca::contiguous(f(y))), ca::testing::doubles(ca::contiguous(f(x))));
            };
            for (const ca::Axes& order : {ca::Axes{0, 2, 1}, {2, 0, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}}) {
                same([&](const Tensor& a) { return ca::permute(a, order); });
                same([&](const Tensor& a) { return ca::slice(ca::permute(a, order), 1, {1, std::nullopt, 2}); });
            }
            same([](const Tensor& a) { return ca::flip(a, {0, 2}); });
            same([](const Tensor& a) { return ca::slice(a, 2, {4, 20}); });
            same([](const Tensor& a) { return ca::slice(a, 2, {3, 20}); });
            same([](const Tensor& a) { return ca::expand(ca::unsqueeze(a, 1), {3, 2, 40, 36}); });
            same([](const Tensor& a) { return ca::reshape(ca::permute(a, {2, 1, 0}), {36 * 40, 3}); });
            same([](const Tensor& a) { return ca::concat({a, ca::flip(a, {1}), a}, 1); });
            same([](const Tensor& a) { return ca::concat({a, a}, 2); });
            same([](const Tensor& a) { return ca::slice(a, 0, {1, 1}); });
        }
    }
}

TEST(Copies, ThroughDLPackNeedAddresses) {
    for (const Device d : gpus()) {
        const Tensor x = ca::ones({2}).to(d);
        if (d.kind == ca::DeviceKind::opencl) {
            expect_error("device/unsupported", [&] { (void)ca::to_dlpack(x); });
            continue;
        }
        DLManagedTensor* out = ca::to_dlpack(x);
        EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
        out->deleter(out);
    }
}

// ---- memory ----

TEST(Memory, IsCachedCountedAndLimited) {
    for (const Device d : gpus()) {
        (ca::ones({1}).to(d) + 1).eval();  // the device keeps the numbers
        ca::empty_cache(d);
        const auto before = ca::memory_statistics(d);
        {
            const Tensor x = (ca::ones({1000, 1000}).to(d) + 1).eval();
            EXPECT_GE(ca::memory_statistics(d).in_use - before.in_use, 4000000);
        }
        EXPECT_EQ(ca::memory_statistics(d).in_use, before.in_use);
        const auto hits = ca::memory_statistics(d).cache_hits;
        const Tensor y = (ca::ones({1000, 1000}).to(d) + 2).eval();
        EXPECT_GT(ca::memory_statistics(d).cache_hits, hits);

        ca::set_memory_limit(ca::memory_statistics(d).in_use + 1000000, d);
        try {
            (void)(y * 2).eval();
            ADD_FAILURE() << "the limit was passed";
        } catch (const ca::MemoryError& e) {
            EXPECT_EQ(e.code(), "memory/exhausted");
            EXPECT_NE(std::string(e.what()).find("held by results of add (1 tensors"), std::string::npos) << e.what();
        }
        ca::set_memory_limit(0, d);
        EXPECT_EQ((y * 2).to_vector<float>()[5], 6.0F);
        expect_error("memory/exhausted", [&] { (void)(ca::zeros({std::int64_t{1} << 48}).to(d) + 1).eval(); });
        EXPECT_EQ((y * 2).to_vector<float>()[5], 6.0F);
    }
}

/// A library's call allocates its workspace while it holds the device, and another thread loads data.
TEST(Memory, IsAskedForByThreadsThatHoldTheDevice) {
    for (const Device d : gpus()) {
        auto& device = gpu_of(d);
        const std::int64_t before = device.statistics().in_use;
        const auto ask = [&](bool holds) {
            for (std::int64_t i = 0; i < 200; ++i) {
                std::unique_lock lock(device.lock(), std::defer_lock);
                if (holds) lock.lock();
                device.empty_cache();
                (void)device.allocate(4096 + 512 * i, "allocate", here);
            }
        };
        std::thread other([&] { ask(false); });
        ask(true);
        other.join();
        EXPECT_EQ(device.statistics().in_use, before);
    }
}

TEST(Memory, IsUsedByManyThreads) {
    for (const Device d : gpus()) {
        std::vector<std::thread> threads;
        for (int k = 0; k < 4; ++k) {
            threads.emplace_back([&, k] {
                for (int i = 0; i < 20; ++i) {
                    const Tensor x = ca::full({1000 + 100 * k}, i).to(d);
                    EXPECT_EQ((x * 2 + k).to_vector<float>().back(), static_cast<float>(2 * i + k));
                }
            });
        }
        for (auto& t : threads) t.join();
    }
}

// ---- the dialect ----

const KernelFile words{"tests/words.kernel", R"(
#define ADD(a, b) ((a) + (b))
typedef struct { f32 scale; i32 shift[2]; } Options;
CONSTANT_TABLE int table[3] = {5, 7, 11};
DEVICE int twice(int x) { return 2 * x; }
#if COUNT > 1
VECTOR(pack, X, COUNT);
#endif

KERNEL(sums, IN(X, x), OUT(f32, y), SIZE(columns)) {
    LOCAL_ARRAY(f32, scratch, THREADS);
    f32 sum = 0;
    for (INDEX c = LOCAL_ID(0); c < columns; c += THREADS) sum += (f32)LOAD(X, x, GROUP_ID(0) * columns + c);
    GROUP_REDUCE(f32, ADD, sum, scratch);
    y[GROUP_ID(0) * THREADS + LOCAL_ID(0)] = sum;
}
KERNEL(scaled, IN(X, x), OUT(X, y), SIZE(n), VALUE(COMPUTE(X), factor), STRUCT(Options, o)) {
    FOR_EACH(i, n) {
        const int k = table[i % 3] + twice(o.shift[1]);
        STORE(X, y, i, LOAD(X, x, i) * factor + (COMPUTE(X))(o.scale * (f32)k + (f32)(LIST_0 + LIST_2)));
    }
}
KERNEL(vectors, IN(X, x), OUT(X, y), SIZE(n)) {
#if COUNT > 1
    FOR_EACH(i, n / COUNT) {
        pack v = LOAD_VECTOR(pack, x, i * COUNT);
        UNROLL for (int k = 0; k < COUNT; ++k) v.e[k] = TO(X, FROM(X, v.e[k]) + 1);
        STORE_VECTOR(pack, y, i * COUNT, v);
    }
#endif
}
KERNEL(strided, IN(X, x), OUT(X, y), SIZE(n), LAYOUT(RANK, 1, l)) {
    FOR_EACH(i, n) {
        INDEX offset;
        OFFSET(l, RANK, 0, i, offset);
        y[i] = x[offset];
    }
}
KERNEL(converted, IN(X, x), OUT(Y, y), SIZE(n)) {
    FOR_EACH(i, n) STORE(Y, y, i, CAST(X, Y, FN(abs, X)(LOAD(X, x, i))));
}
)"};

Launch start(Device d, const char* entry, DType x = ca::f32, std::int64_t count = 1) {
    Launch launch(ca::backend(d), words, entry, "words", here);
    launch.constant("X", x).constant("COUNT", count);
    return launch;
}
View view_of(const Tensor& t) { return ca::graph::view_of(ca::graph::value_of(t.eval())); }
/// A tensor of the device's own memory to write to.
Tensor room(Device d, const ca::Shape& shape, DType dtype = ca::f32) {
    return (ca::zeros(shape, dtype).to(d) + ca::zeros(shape, dtype).to(d)).eval();
}

TEST(Dialect, ReducesInAGroup) {
    for (const Device d : gpus()) {
        const Tensor x = ca::from_host(counted(3000).data(), 3000, ca::f32, {3, 1000}, host).to(d).eval();
        for (const std::int64_t threads : {1, 16, 64, 256}) {
            const Tensor y = room(d, {3, threads});
            start(d, "sums").threads(threads).buffer(view_of(x)).buffer(view_of(y)).size(1000).run(3);
            const auto sums = y.to_vector<float>();
            for (std::int64_t r = 0; r < 3; ++r) {
                for (std::int64_t t = 0; t < threads; ++t) {
                    EXPECT_EQ(sums[static_cast<std::size_t>(r * threads + t)],
                              static_cast<float>(500500 + r * 1000000));
                }
            }
        }
    }
}

TEST(Dialect, TakesValuesStructsListsAndTables) {
    struct {
        float scale = 0.5F;
        std::int32_t shift[2] = {0, 4};
    } options;
    const std::int64_t list[] = {1, 2, 3};
    for (const Device d : gpus()) {
        for (const DType t : {ca::f32, ca::bf16, ca::i32}) {
            const Tensor x = ca::tensor(std::vector<float>{10, 20, 30, 40}).to(host).to(t).to(d).eval(),
                         y = room(d, {4}, t);
            start(d, "scaled", t)
                .list("LIST", list)
                .buffer(view_of(x))
                .buffer(view_of(y))
                .size(4)
                .number(2, t)
                .structure(options)
                .over(4);
            const bool whole = t == ca::i32;  // the addend is cut
            EXPECT_EQ(ca::testing::doubles(y),
                      (whole ? std::vector<double>{30, 51, 73, 90} : std::vector<double>{30.5, 51.5, 73.5, 90.5}))
                << ca::name_of(t);
        }
    }
}

TEST(Dialect, MovesVectors) {
    for (const Device d : gpus()) {
        for (const auto& [t, n] : {std::pair{ca::f32, 4}, {ca::f16, 8}, {ca::bf16, 2}, {ca::u8, 16}}) {
            const Tensor x = ca::testing::numbers(64).to(t).to(d).eval(), y = room(d, {64}, t);
            start(d, "vectors", t, n).buffer(view_of(x)).buffer(view_of(y)).size(64).over(64, n);
            EXPECT_EQ(ca::testing::doubles(y)[63], 64.0);
            EXPECT_EQ(ca::testing::doubles(y)[0], 1.0);
        }
    }
}

TEST(Dialect, SplitsPositionsInBothIndexWidths) {
    for (const Device d : gpus()) {
        const Tensor x = ca::reshape(ca::testing::numbers(7 * 5 * 3), {7, 5, 3}).to(d).eval();
        for (const bool wide : {false, true}) {
            for (const auto& [sizes, strides] : {std::pair{ca::Dims{3, 7, 5}, ca::Dims{1, 15, 3}},
                                                 {ca::Dims{105}, ca::Dims{1}},
                                                 {ca::Dims{}, ca::Dims{}}}) {
                const std::int64_t n = ca::numel(sizes);
                const Tensor y = room(d, {n});
                start(d, "strided")
                    .constant("RANK", sizes.rank())
                    .wide(wide)
                    .buffer(view_of(x))
                    .buffer(view_of(y))
                    .size(n)
                    .layout(sizes, {strides})
                    .over(n);
                const auto got = y.to_vector<float>();
                const Tensor there = sizes.rank() == 3 ? ca::permute(x, {2, 0, 1}) : x;
                EXPECT_TRUE(std::equal(got.begin(), got.end(), ca::contiguous(there).to_vector<float>().begin()));
            }
        }
    }
}

TEST(Dialect, Casts) {
    for (const Device d : gpus()) {
        const Tensor x = ca::tensor(std::vector<float>{-300.7F, NAN, 1e30F, 2.5F}).to(host).to(d).eval();
        const Tensor y = room(d, {4}, ca::i16);
        start(d, "converted").constant("Y", ca::i16).buffer(view_of(x)).buffer(view_of(y)).size(4).over(4);
        EXPECT_EQ(y.to_vector<std::int16_t>(), (std::vector<std::int16_t>{300, 0, 32767, 2}));
    }
}

// ---- errors ----

TEST(Launches, RefuseWrongArguments) {
    static const KernelFile typed{"tests/typed.kernel", "KERNEL(typed, OUT(X, y), VALUE(f32, v)) { y[0] = v; }\n"};
    for (const Device d : gpus()) {
        const Tensor x = room(d, {4});
        expect_error("internal/state", [&] { start(d, "sums").buffer(view_of(x)).size(4).run(1); });
        expect_error("internal/state", [&] { start(d, "sums").buffer(view_of(x)).size(4).size(4).run(1); });
        expect_error("internal/state", [&] {
            Launch(ca::backend(d), typed, "typed", "words", here)
                .constant("X", ca::f32)
                .buffer(view_of(x))
                .value(2.0)
                .run(1);
        });
        expect_error("internal/state", [&] { start(d, "missing").buffer(view_of(x)).run(1); });
    }
    expect_error("internal/state", [] { (void)Launch(ca::backend(host), words, "sums", "words", here); });
}

TEST(Launches, SayWhatDoesNotCompile) {
    static const KernelFile broken{"tests/broken.kernel", "\n\nKERNEL(broken, OUT(X, y)) { y[0] = no_such_word; }\n"};
    for (const Device d : gpus()) {
        const Tensor x = room(d, {4});
        try {
            Launch(ca::backend(d), broken, "broken", "doomed", here).constant("X", ca::f32).buffer(view_of(x)).run(1);
            ADD_FAILURE() << "it compiled";
        } catch (const ca::KernelError& e) {
            const std::string text = e.what();
            EXPECT_EQ(e.code(), "kernel/compile");
            EXPECT_EQ(e.operation(), "doomed");
            for (const char* part : {"broken", "tests/broken.kernel", "X=f32", "no_such_word", "gpu_test.cpp"}) {
                EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
            }
        }
        EXPECT_EQ((x + 1).to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));  // the process lives
    }
}

TEST(Launches, SayWhatTheDriverRefuses) {
    for (const Device d : gpus()) {
        const Tensor x = room(d, {4}), y = room(d, {256});
        const auto refused = [&] {
            Launch launch = start(d, "sums");
            launch.threads(16).buffer(view_of(x));
            // A grid with too many groups on its second axis; memory that nobody allocated.
            if (d.kind == ca::DeviceKind::cuda) return launch.buffer(view_of(y)).size(4).run({1, 70000, 1});
            launch.buffer(reinterpret_cast<const void*>(std::uintptr_t{4096})).size(4).run(1);
        };
        (x + 1).eval();
        try {
            refused();
            ADD_FAILURE() << "the driver took it";
        } catch (const ca::KernelError& e) {
            EXPECT_EQ(e.code(), "kernel/launch");
            EXPECT_EQ(e.operation(), "words");
            EXPECT_NE(std::string(e.what()).find("last first: add at "), std::string::npos) << e.what();
        }
        EXPECT_EQ((x + 1).to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
    }
}

TEST(Launches, AreOrderedByEvents) {
    for (const Device d : gpus()) {
        ca::Stream& stream = ca::backend(d).stream();
        const Tensor x = (ca::ones({1000}).to(d) * 2).eval();
        const auto event = stream.record();
        event->wait();
        EXPECT_TRUE(event->done());
        stream.wait(*event);
        stream.synchronize();
        EXPECT_EQ(x.to_vector<float>()[999], 2.0F);
    }
}

/// In a process of its own, whose devices are made with the guard on.
TEST(GuardDeathTest, FindsWritesBehindABlock) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    static const KernelFile overrun{"tests/overrun.kernel", "KERNEL(overrun, OUT(X, y), SIZE(at)) { y[at] = 1; }\n"};
    const char* before = std::getenv("CALOR_GUARD");
    setenv("CALOR_GUARD", "1", 1);
    for (const Device d : gpus()) {
        const auto write = [&](std::int64_t at) {
            const auto memory = ca::backend(d).allocate(40, "test", here);
            Launch(ca::backend(d), overrun, "overrun", "words", here)
                .constant("X", ca::f32)
                .threads(1)
                .buffer(memory)
                .size(at)
                .run(1);
        };
        EXPECT_DEATH(write(10), "a kernel wrote byte 40 of a block of 40 bytes");
        EXPECT_DEATH(write(-1), "a kernel wrote byte -4 of a block of 40 bytes");
    }
    if (!before) unsetenv("CALOR_GUARD");
}

// ---- the cache ----

TEST(KernelCache, OutlivesTheProcessAndSurvivesDamage) {
    const auto folder = std::filesystem::temp_directory_path() / ("calor-cache-" + std::to_string(getpid()));
    const char* before = std::getenv("CALOR_CACHE");
    const std::string kept = before ? before : "";
    setenv("CALOR_CACHE", folder.c_str(), 1);
    const auto compiled = [&] {  // by a backend of its own, as another process would have
        auto drivers = ca::opencl::drivers(true);
        if (drivers.empty()) return std::int64_t{-1};
        auto* other = new ca::gpu::GpuBackend({ca::DeviceKind::opencl, 0}, std::move(drivers[0]));
        const auto memory = other->allocate(64, "test", here);
        Launch(*other, words, "vectors", "words", here)
            .constant("X", ca::f32)
            .constant("COUNT", 1)
            .buffer(memory)
            .buffer(memory)
            .size(0)
            .run(1);
        other->synchronize();
        return other->compiled();
    };
    if (compiled() >= 0) {
        EXPECT_EQ(ca::kernel_cache().folder, folder.string());
        EXPECT_EQ(ca::kernel_cache().files, 1);
        EXPECT_GT(ca::kernel_cache().bytes, 100);
        EXPECT_EQ(compiled(), 0);  // from disk
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(60);
            file.put('?');
        }
        EXPECT_EQ(compiled(), 1);  // damaged: made anew
        EXPECT_EQ(compiled(), 0);
        EXPECT_EQ(ca::clear_kernel_cache(), 1);
        EXPECT_EQ(ca::kernel_cache().files, 0);
        EXPECT_EQ(compiled(), 1);
    }
    std::filesystem::remove_all(folder);
    setenv("CALOR_CACHE", "/proc/no/such/folder", 1);
    EXPECT_EQ(ca::kernel_cache().folder, "");
    EXPECT_EQ(ca::gpu::cache_read("0"), "");
    if (before) {
        setenv("CALOR_CACHE", kept.c_str(), 1);
    } else {
        unsetenv("CALOR_CACHE");
    }
}

}  // namespace
