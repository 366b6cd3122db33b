#include "stopwatch.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "device/gpu/gpu_backend.h"

namespace ca = calor;

namespace bench {
namespace {

constexpr std::int64_t cold_bytes = std::int64_t{256} << 20;

double seconds(const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double middle(std::vector<double>& times, bool best) {
    const auto half = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    if (best) return *std::min_element(times.begin(), times.end());
    std::nth_element(times.begin(), half, times.end());
    return *half;
}

/// How many calls take `milliseconds`.
int calls(double milliseconds, double one, int least, int most) {
    return static_cast<int>(std::clamp(milliseconds / std::max(one, 1e-4), double(least), double(most)));
}

}  // namespace

struct Stopwatch::Block {
    ca::Ref<ca::Storage> storage;
};

Stopwatch::Stopwatch(ca::Device device, Timing timing) : backend_(ca::backend(device)), timing_(timing) {
    const bool cold = backend_.gpu() && !backend_.gpu()->traits().processor;
    if (cold) block_.reset(new Block{backend_.allocate(cold_bytes, "benchmark", ca::Where::current())});
}
Stopwatch::~Stopwatch() = default;

void Stopwatch::synchronize() { backend_.stream().synchronize(); }

void Stopwatch::cool() {
    if (block_) backend_.gpu()->fill(block_->storage->data, 0, cold_bytes);
}

double Stopwatch::measure(const std::function<void()>& call) {
    if (timing_.once) {
        call();
        synchronize();
        return 0;
    }
    return backend_.gpu() ? measure_gpu(call) : measure_cpu(call);
}

/// About 0.4 s.
double Stopwatch::measure_cpu(const std::function<void()>& call) {
    call();
    std::vector<double> times(static_cast<std::size_t>(calls(0.4, seconds(call), 3, 200)));
    for (double& t : times) t = seconds(call);
    return middle(times, timing_.best) * 1e3;
}

/// Gives the milliseconds that it all took, cooling too, and those of each call alone.
double Stopwatch::timed_calls(const std::function<void()>& call, int count, std::vector<double>& times) {
    ca::Stream& stream = backend_.stream();
    std::vector<std::unique_ptr<ca::Event>> starts, ends;
    const double all = 1e3 * seconds([&] {
                           for (int i = 0; i < count; ++i) {
                               cool();
                               starts.push_back(stream.record_timed());
                               call();
                               ends.push_back(stream.record_timed());
                           }
                           stream.synchronize();
                       });
    times.clear();
    for (int i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        times.push_back(ends[at]->milliseconds_since(*starts[at]));
        if (std::isnan(times.back())) times.back() = all / count;  // a driver without a clock
    }
    return all;
}

double Stopwatch::measure_gpu(const std::function<void()>& call) {
    call();  // compiles and tunes
    synchronize();
    std::vector<double> times;
    double one = timed_calls(call, 1, times);
    if (one < timing_.limit_ms / 10) one = timed_calls(call, 3, times) / 3;
    const int before = calls(timing_.warmup_ms, one, 0, 1000);
    if (before > 3) timed_calls(call, before - 3, times);
    timed_calls(call, calls(timing_.limit_ms, one, 1, 1000), times);
    return middle(times, timing_.best);
}

double Stopwatch::measure_copy(std::int64_t& bytes) {
    if (ca::gpu::GpuBackend* gpu = backend_.gpu()) {
        const std::int64_t size = gpu->traits().processor ? std::int64_t{128} << 20 : std::int64_t{1} << 30;
        const auto from = backend_.allocate(size, "benchmark", ca::Where::current());
        const auto to = backend_.allocate(size, "benchmark", ca::Where::current());
        gpu->fill(from->data, 17, size);
        bytes = 2 * size;
        return measure([&] { gpu->copy(to->data, from->data, size); });
    }
    constexpr std::int64_t count = 1 << 25;
    const ca::Tensor from = ca::normal({count}).eval(), to = ca::zeros({count}).eval();
    const float* source = from.data<float>().data();
    float* target = const_cast<float*>(to.data<float>().data());
    bytes = 8 * count;
    return measure([&] {
        ca::cpu::parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            ca::cpu::stream_copy(target + begin, source + begin, (end - begin) * 4);
        });
    });
}

}  // namespace bench
