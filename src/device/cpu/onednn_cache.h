// What a contraction is to oneDNN once it has been planned: a primitive, conversions around it, one workspace. Plans
// are kept, least recently used ones go. Included by the onednn*.cpp files alone: nothing else sees oneDNN's headers.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cpu/onednn.h"

namespace calor::cpu::onednn {

const dnnl::engine& engine();
/// Threads that a primitive made or run now uses.
int thread_count();

/// Everything that a plan depends on, as numbers.
struct Key {
    std::array<std::int64_t, 64> words;
    std::int64_t count = 0;

    void add(std::int64_t word) {
        if (count == static_cast<std::int64_t>(words.size())) throw std::runtime_error("oneDNN: too many axes");
        words[static_cast<std::size_t>(count++)] = word;
    }
    void add(const Dims& dims) {
        for (const std::int64_t d : dims) add(d);
    }
    friend bool operator==(const Key& a, const Key& b) {
        return a.count == b.count && std::equal(a.words.begin(), a.words.begin() + a.count, b.words.begin());
    }
};

/// An argument of the primitive: where the caller's array differs from what the primitive wants, a conversion.
struct Operand {
    int argument = 0;
    std::size_t pointer = 0;  ///< which of execute()'s pointers
    bool output = false;
    dnnl::memory::desc outer, inner;  ///< the caller's, the primitive's
    dnnl::reorder conversion;         ///< empty when outer and inner are the same bytes
    std::int64_t offset = 0;          ///< of the inner array in the workspace, when converted
};

struct Plan {
    dnnl::primitive primitive;
    std::vector<Operand> operands;
    dnnl::memory::desc scratchpad;
    std::int64_t scratchpad_offset = 0, workspace = 0;  ///< bytes
    const char* refusal = nullptr;                      ///< why there is no primitive
    std::string description;

    /// Adds an operand, with a conversion where it is needed.
    void add_operand(int argument, std::size_t pointer, bool output, const dnnl::memory::desc& outer,
                     const dnnl::memory::desc& inner);
    /// Lays out the workspace; call last.
    void finish(const dnnl::memory::desc& scratchpad_desc);
};

/// True when an array with these strides, read as `desc`, is the same elements in the same places.
bool same_bytes(const dnnl::memory::desc& outer, const dnnl::memory::desc& desc);

/// The plan of a key, made by `build` unless it is kept. Thread-safe; `build` runs outside the lock.
std::shared_ptr<const Plan> cached_plan(const Key& key, const std::function<Plan()>& build);

/// Runs a plan. `inner`: pointers that are to the primitive's array already, in place of the caller's. Thread-safe.
void execute(const Plan& plan, const std::array<void*, 4>& pointers, const std::array<bool, 4>& inner = {});

/// Runs `body`; an error of oneDNN leaves as std::runtime_error with the status in words.
[[noreturn]] void rethrow(const dnnl::error& error);
template <class Body> auto guarded(Body&& body) {
    try {
        return body();
    } catch (const dnnl::error& error) {
        rethrow(error);
    }
}

}  // namespace calor::cpu::onednn
