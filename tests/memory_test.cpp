// Peak memory: an operation needs its inputs, its results, and a workspace that is stated in the table here (and, for
// readers, in docs/memory.md), forward and backward. Measured: the device allocator's peak, and beside it what the
// implementations take from the host's heap, through the replaced operator new below.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "calor/calor.h"
#include "gradient_check.h"
#include "relaid.h"

namespace {

std::atomic<std::int64_t> heap_now{0}, heap_peak{0};

[[gnu::noinline]] void* take(std::size_t bytes) {
    void* data = std::malloc(bytes ? bytes : 1);
    const std::int64_t now = heap_now += static_cast<std::int64_t>(malloc_usable_size(data));
    std::int64_t peak = heap_peak.load();
    while (now > peak && !heap_peak.compare_exchange_weak(peak, now)) {
    }
    return data;
}
[[gnu::noinline]] void give_back(void* data) {
    heap_now -= static_cast<std::int64_t>(malloc_usable_size(data));
    std::free(data);
}

}  // namespace

void* operator new(std::size_t bytes) {
    if (void* data = take(bytes)) return data;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void operator delete(void* data) noexcept { give_back(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { give_back(data); }
void operator delete(void* data, std::size_t) noexcept { give_back(data); }

namespace {

namespace ca = calor;
using ca::Tensor;
using ca::testing::random_tensor;

constexpr std::int64_t MiB = 1 << 20;

struct Case {
    std::string name;
    ca::TensorsFunction call;
    std::vector<Tensor> inputs;
    std::int64_t forward;   ///< bytes of workspace beside inputs and results
    std::int64_t backward;  ///< the same for all gradients together; below 0: there is no gradient
};

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
    std::int64_t total = 0;
    for (const Tensor& t : tensors) {
        if (t.defined()) total += t.numel() * ca::size_of(t.dtype());
    }
    return total;
}

/// Bytes beside the results at the worst moment of `body`: of the device and of the heap.
template <class F> std::int64_t workspace(F&& body) {
    ca::empty_cache();
    ca::reset_peak_memory();
    const std::int64_t before = ca::memory_statistics().in_use, heap = heap_now;
    heap_peak = heap;
    const std::vector<Tensor> results = body();
    ca::eval(results);
    // Blocks are rounded up to eighths of powers of two.
    return ca::memory_statistics().peak - before - bytes_of(results) * 9 / 8 + (heap_peak - heap);
}

Tensor some(const ca::Shape& shape, ca::DType dtype = ca::f32) { return random_tensor(shape, 1, -1, 1, dtype).eval(); }
Tensor indices(const ca::Shape& shape, std::int64_t below) {
    return ca::reshape(ca::remainder(ca::arange(ca::numel(shape), ca::i64), below), shape).eval();
}

std::vector<Case> cases() {
    std::vector<Case> all;
    const auto add = [&](std::string name, std::vector<Tensor> inputs, ca::TensorsFunction call, std::int64_t forward,
                         std::int64_t backward) {
        all.push_back({std::move(name), std::move(call), std::move(inputs), forward, backward});
    };
    using In = const std::vector<Tensor>&;
    const Tensor image = some({4, 16, 128, 128}), half = some({4, 16, 128, 128}, ca::bf16);  // 4 MiB, 2 MiB
    add(
        "conv", {image, some({16, 16, 3, 3})}, [](In t) { return std::vector{ca::conv(t[0], t[1], {.padding = 1})}; },
        10 * MiB, 10 * MiB);
    add(
        "conv bf16", {half, some({16, 16, 3, 3}, ca::bf16)},
        [](In t) { return std::vector{ca::conv(t[0], t[1], {.padding = 1})}; }, 18 * MiB, 18 * MiB);
    add(
        "conv depthwise", {image, some({16, 1, 3, 3})},
        [](In t) { return std::vector{ca::conv(t[0], t[1], {.padding = 1, .groups = 16})}; }, MiB / 4, MiB / 4);
    add(
        "conv 4-D", {some({1, 8, 16, 16, 16, 16}), some({8, 8, 3, 3, 3, 3})},
        [](In t) { return std::vector{ca::conv(t[0], t[1], {.padding = 1})}; }, 6 * MiB, 8 * MiB);
    add(
        "conv_transpose", {image, some({16, 16, 2, 2})},
        [](In t) { return std::vector{ca::conv_transpose(t[0], t[1], {.stride = 2})}; }, MiB, 9 * MiB);
    for (const auto mode :
         {ca::Interpolation::nearest, ca::Interpolation::linear, ca::Interpolation::cubic, ca::Interpolation::area}) {
        add(
            "interpolate mode " + std::to_string(static_cast<int>(mode)), {image},
            [mode](In t) {
                return std::vector{ca::interpolate(t[0], {.size = {200, 100}, .mode = mode})};
            },
            MiB / 4, MiB / 4);
    }
    add(
        "interpolate antialiased", {image},
        [](In t) {
            return std::vector{
                ca::interpolate(t[0], {.size = {50, 60}, .mode = ca::Interpolation::cubic, .antialias = true})};
        },
        MiB, MiB / 4);
    add(
        "interpolate bf16", {half},
        [](In t) {
            return std::vector{ca::interpolate(t[0], {.size = {200, 100}, .mode = ca::Interpolation::linear})};
        },
        MiB / 2, MiB / 2);
    add(
        "avg_pool", {image},
        [](In t) {
            return std::vector{ca::avg_pool(t[0], {.kernel = {3, 3}, .stride = 2, .padding = 1})};
        },
        MiB, MiB / 4);
    add(
        "adaptive_avg_pool", {image},
        [](In t) {
            return std::vector{ca::adaptive_avg_pool(t[0], {.size = {7, 7}})};
        },
        MiB, MiB / 2);
    add(
        "max_pool", {image},
        [](In t) {
            return std::vector{ca::max_pool(t[0], {.kernel = {3, 3}, .stride = 2, .padding = 1})};
        },
        MiB / 4, MiB / 4);
    add(
        "adaptive_max_pool", {image},
        [](In t) {
            return std::vector{ca::adaptive_max_pool(t[0], {.size = {7, 7}})};
        },
        MiB / 4, MiB / 4);
    add(
        "lp_pool", {image},
        [](In t) {
            return std::vector{ca::lp_pool(t[0], {.kernel = {2, 2}})};
        },
        5 * MiB, MiB / 4);
    add(
        "max_unpool", {some({4, 16, 64, 64}), indices({4, 16, 64, 64}, 128 * 128)},
        [](In t) {
            return std::vector{ca::max_unpool(t[0], t[1], {128, 128})};
        },
        MiB / 4, MiB / 4);
    add(
        "unfold", {some({1, 16, 128, 128})},
        [](In t) {
            return std::vector{ca::unfold(t[0], {.kernel = {3, 3}, .padding = 1})};
        },
        MiB / 4, MiB / 4);
    add(
        "fold", {some({1, 16 * 4, 127 * 127})},
        [](In t) {
            return std::vector{ca::fold(t[0], {128, 128}, {.kernel = {2, 2}})};
        },
        MiB / 4, MiB / 4);
    add(
        "pixel_shuffle", {image}, [](In t) { return std::vector{ca::pixel_shuffle(t[0], 2)}; }, MiB / 4, MiB / 4);
    for (const auto mode :
         {ca::PadMode::constant, ca::PadMode::reflect, ca::PadMode::replicate, ca::PadMode::circular}) {
        add(
            "pad mode " + std::to_string(static_cast<int>(mode)), {image},
            [mode](In t) {
                return std::vector{ca::pad(t[0], {{3, 2}, {1, 4}}, mode)};
            },
            MiB / 4, MiB / 4);
    }
    add(
        "grid_sample", {image, some({4, 64, 64, 2})}, [](In t) { return std::vector{ca::grid_sample(t[0], t[1])}; },
        9 * MiB, 9 * MiB);
    add(
        "deform_conv", {image, some({4, 18, 128, 128}), some({16, 16, 3, 3})},
        [](In t) { return std::vector{ca::deform_conv(t[0], t[1], t[2], {.padding = 1})}; }, 5 * MiB, 5 * MiB);
    add(
        "ctc_loss", {some({500, 8, 64}), indices({8, 50}, 63) + 1},
        [](In t) { return std::vector{ca::ctc_loss(t[0], t[1])}; }, MiB / 4, MiB);
    add(
        "cumsum", {image}, [](In t) { return std::vector{ca::cumsum(t[0], 2)}; }, MiB / 4, MiB / 4);
    add(
        "cumprod", {image}, [](In t) { return std::vector{ca::cumprod(t[0], 2)}; }, MiB / 4, 5 * MiB);
    add(
        "cummax", {image}, [](In t) { return std::vector{ca::cummax(t[0], 2).values}; }, 9 * MiB, MiB / 4);
    add(
        "logcumsumexp", {image}, [](In t) { return std::vector{ca::logcumsumexp(t[0], 2)}; }, MiB / 4, 10 * MiB);
    add(
        "sum", {image},
        [](In t) {
            return std::vector{ca::sum(t[0], {1, 3})};
        },
        MiB / 4, MiB / 4);
    add(
        "prod", {image}, [](In t) { return std::vector{ca::prod(t[0], {1})}; }, MiB / 4, 5 * MiB);
    add(
        "var", {image},
        [](In t) {
            return std::vector{ca::var(t[0], {1, 3})};
        },
        MiB / 4, MiB / 4);
    add(
        "softmax", {image}, [](In t) { return std::vector{ca::softmax(t[0])}; }, MiB / 4, MiB / 4);
    add(
        "layer_norm", {image}, [](In t) { return std::vector{ca::layer_norm(t[0], 2)}; }, MiB / 4, MiB / 4);
    add(
        "batch_norm", {image}, [](In t) { return std::vector{ca::batch_norm(t[0]).output}; }, MiB / 4, MiB / 4);
    add(
        "matmul", {some({1024, 1024}), some({1024, 1024})}, [](In t) { return std::vector{ca::matmul(t[0], t[1])}; },
        MiB / 2, MiB / 2);  // oneDNN packs as much as its instruction set likes
    add(
        "matmul bf16", {some({1024, 1024}, ca::bf16), some({1024, 1024}, ca::bf16)},
        [](In t) { return std::vector{ca::matmul(t[0], t[1])}; }, 13 * MiB, 13 * MiB);
    add(
        "attention", {some({2, 8, 512, 64}), some({2, 8, 512, 64}), some({2, 8, 512, 64})},
        [](In t) { return std::vector{ca::attention(t[0], t[1], t[2])}; }, 32 * MiB, 12 * MiB);
    add(
        "sort", {image}, [](In t) { return std::vector{ca::sort(t[0]).values}; }, 9 * MiB, MiB / 4);
    add(
        "topk", {image}, [](In t) { return std::vector{ca::topk(t[0], 5).values}; }, MiB, MiB / 4);
    add(
        "gather", {image, indices({4, 16, 128, 64}, 128)}, [](In t) { return std::vector{ca::gather(t[0], 3, t[1])}; },
        MiB / 4, MiB / 4);
    add(
        "embedding", {some({10000, 64}), indices({4, 512}, 10000)},
        [](In t) { return std::vector{ca::embedding(t[0], t[1])}; }, MiB / 4, MiB / 4);
    add(
        "gelu * sigmoid", {image}, [](In t) { return std::vector{ca::gelu(t[0]) * ca::sigmoid(t[0])}; }, MiB / 4,
        9 * MiB);
    return all;
}

TEST(Memory, IsInputsResultsAndAStatedWorkspace) {
    if (ca::default_device() != ca::Device{}) GTEST_SKIP() << "the bounds are stated for the CPU";
    const ca::testing::Disable guard("cudnn");  // whose algorithms choose their own workspace
    ca::set_thread_count(2);
    for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        std::int64_t forward = 0;
        {
            const ca::NoGrad guard;
            forward = workspace([&] { return c.call(c.inputs); });
        }
        EXPECT_LE(forward, c.forward);
        std::vector<Tensor> floating;
        std::vector<Tensor> leaves = c.inputs;
        for (Tensor& t : leaves) {
            if (!ca::is_floating(t.dtype())) continue;
            t = t.requires_grad();
            floating.push_back(t);
        }
        const std::vector<Tensor> outputs = c.call(leaves);
        ca::eval(outputs);
        std::vector<Tensor> cotangents;
        for (const Tensor& y : outputs) cotangents.push_back(some(y.shape(), y.dtype()));
        const std::int64_t backward = workspace([&] { return ca::gradients(outputs, floating, cotangents); });
        EXPECT_LE(backward, c.backward);
    }
}

}  // namespace
