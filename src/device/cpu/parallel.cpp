#include "device/cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>
#ifdef CALOR_OPENMP
#include <omp.h>
#endif

#include "calor/device.h"
#include "core/fail.h"

namespace calor {
namespace {

std::atomic<int> wanted_threads{0};
thread_local bool inside_parallel = false;

int default_threads() {
#ifdef CALOR_OPENMP
    static const int threads = std::max(1, omp_get_max_threads());
#else
    static const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
#endif
    return threads;
}

}  // namespace

int thread_count() {
    const int wanted = wanted_threads.load(std::memory_order_relaxed);
    return wanted > 0 ? wanted : default_threads();
}

void set_thread_count(int count, const Where& where) {
    if (count < 1 || count > 1024) {
        fail("value/option", "set_thread_count", where,
             {{"option", "count"}, {"got", count}, {"expected", "1 to 1024"}, {"help", "use the number of cores"}});
    }
    wanted_threads.store(count, std::memory_order_relaxed);
#ifdef CALOR_OPENMP
    omp_set_num_threads(count);
#endif
}

namespace cpu {

void parallel_for(std::int64_t count, std::int64_t grain, RangeBody body) {
    if (count <= 0) return;
    const std::int64_t most = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, grain));
    const int threads = static_cast<int>(std::min<std::int64_t>(thread_count(), most));
    if (threads <= 1 || inside_parallel) {
        body(0, count);
        return;
    }
    std::exception_ptr error;
    std::atomic_flag failed = ATOMIC_FLAG_INIT;
    const auto work = [&](int t) {
        const std::int64_t share = count / threads, extra = count % threads;
        const std::int64_t begin = t * share + std::min<std::int64_t>(t, extra);
        inside_parallel = true;
        try {
            body(begin, begin + share + (t < extra ? 1 : 0));
        } catch (...) {
            if (!failed.test_and_set()) error = std::current_exception();
        }
        inside_parallel = false;
    };
#ifdef CALOR_OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) work(t);
#else
    std::vector<std::thread> workers;
    for (int t = 1; t < threads; ++t) workers.emplace_back(work, t);
    work(0);
    for (auto& w : workers) w.join();
#endif
    if (error) std::rethrow_exception(error);
}

}  // namespace cpu
}  // namespace calor
