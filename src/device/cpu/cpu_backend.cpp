#include "device/cpu/cpu_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "device/caching_allocator.h"

namespace calor::cpu {
namespace {

class DoneEvent final : public Event {
public:
    void wait() override {}
    bool done() const override { return true; }
    double milliseconds_since(const Event& earlier) override {
        return std::chrono::duration<double, std::milli>(at_ - static_cast<const DoneEvent&>(earlier).at_).count();
    }

private:
    std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

/// Runs everything at once, so it never has anything to wait for.
class ImmediateStream final : public Stream {
public:
    void launch(void (*body)(void*), void* context) override { body(context); }
    void copy_to_host(void* host, const void* device, std::int64_t bytes) override { copy(host, device, bytes); }
    void copy_to_device(void* device, const void* host, std::int64_t bytes) override { copy(device, host, bytes); }
    std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
    std::unique_ptr<Event> record_timed() override { return record(); }
    void wait(const Event&) override {}
    void synchronize() override {}

private:
    static void copy(void* to, const void* from, std::int64_t bytes) {
        if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
};

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "CPU";
}

std::vector<std::string> processor_features() {
    std::vector<std::string> features;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) features.emplace_back("avx2");
    if (__builtin_cpu_supports("fma")) features.emplace_back("fma");
    if (__builtin_cpu_supports("avx512f")) features.emplace_back("avx512f");
#endif
#ifdef CALOR_ONEDNN
    features.emplace_back("onednn");
#endif
#ifdef CALOR_OPENMP
    features.emplace_back("openmp");
#endif
    return features;
}

class CpuBackend final : public Backend, private MemorySource {
public:
    DeviceInfo info() const override {
        return {.device = {},
                .name = "cpu:0",
                .description = processor_name(),
                .driver = {},
                .memory = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE),
                .threads = thread_count(),
                .features = processor_features()};
    }
    Ref<Storage> allocate(std::int64_t bytes, std::string_view operation, const Where& where) override {
        return allocator_.allocate(bytes, operation, where);
    }
    Stream& stream() override {
        static ImmediateStream stream;
        return stream;
    }
    void run(const ElementwiseProgram& program, std::span<const View> in, std::span<const View> out,
             const Where&) override {
        run_elementwise(program, in, out);
    }
    MemoryStatistics statistics() const override { return allocator_.statistics(); }
    void set_limit(std::int64_t bytes) override { allocator_.set_limit(bytes); }
    void reset_peak() override { allocator_.reset_peak(); }
    void empty_cache() override { allocator_.empty_cache(); }

private:
    /// Size classes are multiples of 64. Large blocks ask for large pages: fewer misses of the address cache.
    void* acquire(std::int64_t bytes) override {
        constexpr std::int64_t large_page = 2 << 20;
        const auto size = static_cast<std::size_t>(bytes);
        if (bytes < 2 * large_page) return std::aligned_alloc(64, size);
        void* data = nullptr;  // aligned_alloc would want a size that is a multiple of the page
        if (posix_memalign(&data, large_page, size) != 0) return nullptr;
        madvise(data, size, MADV_HUGEPAGE);
        return data;
    }
    void give_back(void* data, std::int64_t) override { std::free(data); }

    CachingAllocator allocator_{"cpu:0", *this};
};

}  // namespace

Backend& backend() {
    // Never destroyed: tensors in static storage may outlive any static object.
    static auto* instance = new CpuBackend;
    return *instance;
}

}  // namespace calor::cpu
