// What the engine costs: recording and evaluating a tiny operation, and the bandwidth of a large one beside a plain
// copy.
#include <benchmark/benchmark.h>

#include <cstring>

#include "calor/calor.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "device/device.h"

namespace ca = calor;

namespace {

ca::Tensor four() { return ca::tensor({1.F, 2.F, 3.F, 4.F}); }

/// One operation on 4 elements: recorded only.
void record(benchmark::State& state) {
    const ca::Tensor a = four(), b = four();
    for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(record);

/// Recorded, evaluated, released.
void record_and_evaluate(benchmark::State& state) {
    const ca::Tensor a = four(), b = four();
    for (auto _ : state) {
        const ca::Tensor c = a + b;
        c.eval();
    }
}
BENCHMARK(record_and_evaluate);

constexpr std::int64_t large = 1 << 25;

/// Memory like that of tensors, written once.
ca::Ref<ca::Storage> block() {
    auto storage = ca::backend({}).allocate(large * 4, "bench", ca::Where::current());
    std::memset(storage->data, 1, large * 4);
    return storage;
}

/// The machine's copy: the ceiling for memory-bound operations. Stores go past the caches.
void copy_large(benchmark::State& state) {
    const auto from = block(), to = block();
    for (auto _ : state) {
        ca::cpu::parallel_for(large, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            ca::cpu::stream_copy(static_cast<float*>(to->data) + begin, static_cast<const float*>(from->data) + begin,
                                 (end - begin) * 4);
        });
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * large * 8);
}
BENCHMARK(copy_large)->Unit(benchmark::kMillisecond)->UseRealTime();

void add_large(benchmark::State& state) {
    const ca::Tensor a = (ca::full({large}, 1.0) + 0).eval(), b = (ca::full({large}, 2.0) + 0).eval();
    for (auto _ : state) {
        const ca::Tensor c = a + b;
        c.eval();
    }
    state.SetBytesProcessed(state.iterations() * large * 12);
}
BENCHMARK(add_large)->Unit(benchmark::kMillisecond)->UseRealTime();

/// gelu(x * 1.5 + 0.25) * sigmoid(x): one pass through memory when fused.
void chain_large(benchmark::State& state) {
    const ca::Tensor x = (ca::full({large}, 1.0) + 0).eval();
    for (auto _ : state) {
        const ca::Tensor c = ca::gelu(x * 1.5 + 0.25) * ca::sigmoid(x);
        c.eval();
    }
    state.SetBytesProcessed(state.iterations() * large * 8);
}
BENCHMARK(chain_large)->Unit(benchmark::kMillisecond)->UseRealTime();

void sum_large(benchmark::State& state) {
    const ca::Tensor x = (ca::full({large}, 1.0) + 0).eval();
    for (auto _ : state) ca::sum(x).eval();
    state.SetBytesProcessed(state.iterations() * large * 4);
}
BENCHMARK(sum_large)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
