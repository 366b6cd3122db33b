// The engine, the plans that are kept, their execution, temporary memory.
#include "device/cpu/onednn_cache.h"

#include <list>
#include <mutex>
#include <unordered_map>

#ifdef CALOR_OPENMP
#include <omp.h>
#endif

#include "calor/device.h"
#include "device/cpu/scratch.h"

namespace calor::cpu::onednn {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t align(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

struct KeyHash {
    std::size_t operator()(const Key& key) const {
        std::uint64_t h = 0x9e3779b97f4a7c15ULL;
        for (std::int64_t i = 0; i < key.count; ++i) {
            h ^= static_cast<std::uint64_t>(key.words[static_cast<std::size_t>(i)]);
            h *= 0xff51afd7ed558ccdULL;
            h ^= h >> 32;
        }
        return h;
    }
};

/// Plans by key; the list has the one used last in front.
struct Cache {
    using Entry = std::pair<Key, std::shared_ptr<const Plan>>;
    std::mutex mutex;
    std::list<Entry> order;
    std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> index;
    std::int64_t capacity = 1024, hits = 0, misses = 0;

    void trim() {
        while (static_cast<std::int64_t>(order.size()) > capacity) {
            index.erase(order.back().first);
            order.pop_back();
        }
    }
};

// Never destroyed: threads may still compute while the program ends.
Cache& cache() {
    static Cache* const instance = new Cache;
    return *instance;
}

dnnl::stream& thread_stream() {
    thread_local dnnl::stream stream(engine());
    return stream;
}

}  // namespace

const dnnl::engine& engine() {
    static const dnnl::engine* const instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return *instance;
}

int thread_count() {
#ifdef CALOR_OPENMP
    if (omp_in_parallel()) return 1;
    // The setting is a thread's own in OpenMP and the program's in calor.
    if (omp_get_max_threads() != calor::thread_count()) omp_set_num_threads(calor::thread_count());
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void rethrow(const dnnl::error& error) {
    const char* status = "unknown status";
    switch (error.status) {
        case dnnl_out_of_memory: status = "out of memory"; break;
        case dnnl_invalid_arguments: status = "invalid arguments"; break;
        case dnnl_unimplemented: status = "not supported"; break;
        case dnnl_iterator_ends: status = "no implementation left"; break;
        case dnnl_runtime_error: status = "run-time error"; break;
        case dnnl_not_required: status = "not required"; break;
        default: break;
    }
    throw std::runtime_error(std::string("oneDNN: ") + error.message + " (" + status + ")");
}

bool same_bytes(const dnnl::memory::desc& outer, const dnnl::memory::desc& desc) {
    const auto& a = outer.data;
    const auto& b = desc.data;
    if (a.data_type != b.data_type || a.ndims != b.ndims || b.format_kind != dnnl_blocked) return false;
    if (b.format_desc.blocking.inner_nblks != 0 || b.offset0 != 0 || b.extra.flags != 0) return false;
    for (int i = 0; i < a.ndims; ++i) {
        if (a.dims[i] != b.dims[i] || b.padded_dims[i] != b.dims[i]) return false;
        if (a.dims[i] != 1 && a.format_desc.blocking.strides[i] != b.format_desc.blocking.strides[i]) return false;
    }
    return true;
}

void Plan::add_operand(int argument, std::size_t pointer, bool output, const dnnl::memory::desc& outer,
                       const dnnl::memory::desc& inner) {
    Operand operand{argument, pointer, output, outer, inner, {}, 0};
    if (!same_bytes(outer, inner)) {
        const auto& from = output ? inner : outer;
        const auto& to = output ? outer : inner;
        operand.conversion = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to));
        operand.offset = workspace;
        workspace += align(static_cast<std::int64_t>(inner.get_size()));
    }
    operands.push_back(std::move(operand));
}

void Plan::finish(const dnnl::memory::desc& scratchpad_desc) {
    scratchpad = scratchpad_desc;
    scratchpad_offset = workspace;
    workspace += align(static_cast<std::int64_t>(scratchpad.get_size()));
}

std::shared_ptr<const Plan> cached_plan(const Key& key, const std::function<Plan()>& build) {
    Cache& kept = cache();
    {
        const std::lock_guard lock(kept.mutex);
        if (const auto found = kept.index.find(key); found != kept.index.end()) {
            ++kept.hits;
            kept.order.splice(kept.order.begin(), kept.order, found->second);
            return found->second->second;
        }
        ++kept.misses;
    }
    auto plan = std::make_shared<const Plan>(build());
    const std::lock_guard lock(kept.mutex);
    if (!kept.index.contains(key)) {  // another thread may have been faster
        kept.order.emplace_front(key, plan);
        kept.index.emplace(key, kept.order.begin());
        kept.trim();
    }
    return plan;
}

void execute(const Plan& plan, const std::array<void*, 4>& pointers, const std::array<bool, 4>& are_inner) {
    dnnl::stream& stream = thread_stream();
    const Scratch workspace(plan.workspace);
    std::vector<dnnl_exec_arg_t> arguments;
    std::array<dnnl::memory, 5> inner;
    arguments.reserve(inner.size());
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
        const Operand& operand = plan.operands[i];
        const bool converts = static_cast<bool>(operand.conversion) && !are_inner[operand.pointer];
        void* const data = converts ? workspace.bytes() + operand.offset : pointers[operand.pointer];
        inner[i] = dnnl::memory(operand.inner, engine(), data);
        arguments.push_back({operand.argument, inner[i].get()});
        if (converts && !operand.output) {
            dnnl::memory outer(operand.outer, engine(), pointers[operand.pointer]);
            operand.conversion.execute(stream, outer, inner[i]);
        }
    }
    if (plan.scratchpad.get_size() != 0) {
        inner[4] = dnnl::memory(plan.scratchpad, engine(), workspace.bytes() + plan.scratchpad_offset);
        arguments.push_back({DNNL_ARG_SCRATCHPAD, inner[4].get()});
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(plan.primitive.get(), stream.get(),
                                                   static_cast<int>(arguments.size()), arguments.data()),
                            "could not execute a primitive");
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
        const Operand& operand = plan.operands[i];
        if (!operand.output || !operand.conversion || are_inner[operand.pointer]) continue;
        dnnl::memory outer(operand.outer, engine(), pointers[operand.pointer]);
        operand.conversion.execute(stream, inner[i], outer);
    }
    stream.wait();
}

CacheStatistics cache_statistics() {
    Cache& kept = cache();
    const std::lock_guard lock(kept.mutex);
    return {static_cast<std::int64_t>(kept.order.size()), kept.capacity, kept.hits, kept.misses};
}

void set_cache_capacity(std::int64_t entries) {
    Cache& kept = cache();
    const std::lock_guard lock(kept.mutex);
    kept.capacity = std::max<std::int64_t>(entries, 0);
    kept.trim();
}

}  // namespace calor::cpu::onednn
