// The tile interpreter. A fused chain runs over tiles of a few hundred to a few thousand elements: inputs are loaded
// (or, when dense and already in the compute dtype, read in place), every step runs over the tile while it is in the
// first-level cache, and only the stored values go to memory. f16 and bf16 are storage formats: tiles hold f32 and
// round when stored.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/fail.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu_backend.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace calor::cpu {
namespace {

constexpr std::int64_t tile_budget = 24 * 1024;     // bytes of tiles: fits the first-level cache beside the code's data
constexpr std::int64_t parallel_grain = 16 * 1024;  // elements a thread at least
constexpr std::int64_t streaming_bytes = 16 << 20;  // results this large bypass the caches

/// How the elements of one input are found.
struct Source {
    const std::byte* data = nullptr;
    DType dtype = f32;
    std::int64_t size = 4;
    bool direct = false;    ///< dense in iteration order
    bool constant = false;  ///< one element for all
    Strides strides;        ///< over the collapsed axes
    TileKernel widen = nullptr;
};

/// Everything that a thread needs; made once a run.
struct Prepared {
    Shape shape;  ///< collapsed axes, output order
    std::int64_t count = 0;
    std::int64_t tile = 0;
    std::vector<Source> sources;
    struct Step {
        TileKernel kernel = nullptr;
        TileKernel narrow = nullptr, widen = nullptr;  ///< for rounding in place
        const double* params = nullptr;
        int inputs[3] = {};
        int input_count = 0;
        int store = -1;  ///< output that this value goes to
        std::int64_t size = 4;
    };
    std::vector<Step> steps;
    struct Store {
        std::byte* data = nullptr;
        std::int64_t size = 4;
        TileKernel narrow = nullptr;
        bool streaming = false;
    };
    std::vector<Store> stores;
    std::vector<int> slot;  ///< scratch slot of each value, -1: none
    int slots = 0;
};

/// Orders axes by the output's strides and merges those that every operand walks without a gap.
void collapse(const Shape& shape, const Strides& order, std::span<const View> inputs, Prepared& p) {
    std::vector<std::int64_t> axes;
    for (std::int64_t a = 0; a < shape.rank(); ++a) {
        if (shape[a] != 1) axes.push_back(a);
    }
    std::ranges::stable_sort(axes, std::greater{}, [&](std::int64_t a) { return order[a]; });
    for (Source& s : p.sources) s.strides.resize(0);
    for (const std::int64_t a : axes) {
        bool merges = !p.shape.empty();
        for (std::size_t i = 0; i < inputs.size() && merges; ++i) {
            merges = p.sources[i].strides.back() == inputs[i].stride(a) * shape[a];
        }
        if (merges) {
            p.shape[p.shape.rank() - 1] *= shape[a];
        } else {
            p.shape.push_back(shape[a]);
        }
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!merges) p.sources[i].strides.push_back(0);
            p.sources[i].strides[p.shape.rank() - 1] = inputs[i].stride(a);
        }
    }
    for (Source& s : p.sources) {
        s.constant = std::ranges::all_of(s.strides, [](std::int64_t v) { return v == 0; });
        s.direct = !s.constant && p.shape.rank() == 1 && s.strides[0] == 1;
    }
    // A dense input beside a broadcast one keeps several axes; it is still dense when its strides nest.
    for (Source& s : p.sources) {
        if (!s.constant && !s.direct) s.direct = is_contiguous(p.shape, s.strides);
    }
}

/// Gives every value that is not read or written in place a scratch slot; slots are reused after the last reader.
void assign_slots(const ElementwiseProgram& program, Prepared& p) {
    const int values = static_cast<int>(p.sources.size() + p.steps.size());
    const int inputs = static_cast<int>(p.sources.size());
    std::vector<int> last_use(static_cast<std::size_t>(values), -1);
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
        for (const int v : program.steps[s].inputs) {
            if (v >= 0) last_use[static_cast<std::size_t>(v)] = static_cast<int>(s);
        }
    }
    p.slot.assign(static_cast<std::size_t>(values), -1);
    std::vector<int> free;
    const auto take = [&] {
        if (free.empty()) return p.slots++;
        const int slot = free.back();
        free.pop_back();
        return slot;
    };
    for (int v = 0; v < inputs; ++v) {
        const Source& s = p.sources[static_cast<std::size_t>(v)];
        if (!s.direct || s.widen) p.slot[static_cast<std::size_t>(v)] = take();
    }
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
        const Prepared::Step& step = p.steps[s];
        const bool in_place = step.store >= 0 && !p.stores[static_cast<std::size_t>(step.store)].narrow &&
                              !p.stores[static_cast<std::size_t>(step.store)].streaming;
        const auto value = static_cast<std::size_t>(inputs) + s;
        if (!in_place) p.slot[value] = take();
        for (const int v : program.steps[s].inputs) {
            if (v < inputs) continue;  // inputs' slots hold constants between tiles
            const int slot = p.slot[static_cast<std::size_t>(v)];
            if (last_use[static_cast<std::size_t>(v)] == static_cast<int>(s) && slot >= 0) {
                free.push_back(slot);
                last_use[static_cast<std::size_t>(v)] = -2;
            }
        }
    }
}

Prepared prepare(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs) {
    Prepared p;
    p.count = numel(program.shape);
    for (const View& v : inputs) {
        Source s;
        s.data = v.as<const std::byte>();
        s.dtype = v.dtype;
        s.size = size_of(v.dtype);
        if (is_half(v.dtype)) s.widen = find_convert(v.dtype, f32);
        p.sources.push_back(std::move(s));
    }
    collapse(program.shape, *outputs[0].strides, inputs, p);
    std::int64_t widest = 1;
    for (const ElementwiseStep& step : program.steps) {
        Prepared::Step s;
        const DType compute = compute_type(step.operand);
        if (!step.traits->cast) {
            s.kernel = step.traits->kernel(step.traits->name, compute);
        } else {  // a half result is rounded once more, when it is narrowed
            s.kernel = is_half(step.result) ? find_widen(compute) : find_convert(compute, step.result);
        }
        if (step.round) {
            s.narrow = find_convert(f32, step.result);
            s.widen = find_convert(step.result, f32);
        }
        s.params = step.params;
        while (s.input_count < 3 && step.inputs[s.input_count] >= 0) {
            s.inputs[s.input_count] = step.inputs[s.input_count];
            ++s.input_count;
        }
        s.size = size_of(compute_type(step.result));
        widest = std::max({widest, s.size, size_of(compute_type(step.operand))});
        p.steps.push_back(s);
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        Prepared::Store store;
        store.data = outputs[o].as<std::byte>();
        store.size = size_of(outputs[o].dtype);
        if (is_half(outputs[o].dtype)) store.narrow = find_convert(f32, outputs[o].dtype);
        const bool aliased = std::ranges::any_of(inputs, [&](const View& v) { return v.data == outputs[o].data; });
        store.streaming = !store.narrow && !aliased && p.count * store.size >= streaming_bytes;
        p.stores.push_back(store);
        p.steps[static_cast<std::size_t>(program.outputs[o]) - p.sources.size()].store = static_cast<int>(o);
    }
    assign_slots(program, p);
    const std::int64_t tile = tile_budget / (std::max<std::int64_t>(1, p.slots + 1) * widest);
    p.tile = std::clamp<std::int64_t>(tile / 64 * 64, 128, 2048);
    return p;
}

/// Copies `n` elements that start at linear position `at` into `to`, in storage dtype.
void gather_tile(const Prepared& p, const Source& s, std::int64_t at, std::int64_t n, std::byte* to) {
    const std::int64_t last = p.shape.rank() - 1;
    std::int64_t index[64];
    std::int64_t rest = at, offset = 0;
    for (std::int64_t a = last; a >= 0; --a) {
        index[a] = rest % p.shape[a];
        rest /= p.shape[a];
        offset += index[a] * s.strides[a];
    }
    while (n > 0) {
        const std::int64_t run = std::min(n, p.shape[last] - index[last]);
        cpu::gather(to, s.data + offset * s.size, s.strides[last], s.size, run);
        to += run * s.size;
        n -= run;
        if (n == 0) break;
        offset += run * s.strides[last];
        index[last] += run;
        for (std::int64_t a = last; a > 0 && index[a] == p.shape[a]; --a) {
            offset += s.strides[a - 1] - index[a] * s.strides[a];
            index[a] = 0;
            ++index[a - 1];
        }
    }
}

/// Runs [begin, end) of the iteration space.
class Worker {
public:
    explicit Worker(const Prepared& p) : p_(p), slot_bytes_(p.tile * 8), pointers_(p.slot.size()) {
        base_ = scratch((p.slots + 1) * slot_bytes_);
        staging_ = base_ + p.slots * slot_bytes_;
    }
    void run(std::int64_t begin, std::int64_t end) {
        for (std::size_t i = 0; i < p_.sources.size(); ++i) {
            if (p_.sources[i].constant) load_constant(i, std::min(p_.tile, end - begin));
        }
        for (std::int64_t at = begin; at < end; at += p_.tile) run_tile(at, std::min(p_.tile, end - at));
    }

private:
    /// The thread's tile memory, kept between runs. A run never starts another one on its thread.
    static std::byte* scratch(std::int64_t bytes) {
        constexpr std::int64_t alignment = 64;
        thread_local std::unique_ptr<std::byte[]> memory;
        thread_local std::int64_t size = 0;
        if (size < bytes + alignment) {
            memory.reset(new std::byte[static_cast<std::size_t>(bytes + alignment)]);
            size = bytes + alignment;
        }
        const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
        return memory.get() + (alignment - address % alignment) % alignment;
    }
    std::byte* slot(std::size_t value) { return base_ + p_.slot[value] * slot_bytes_; }

    void load_constant(std::size_t i, std::int64_t n) {
        const Source& s = p_.sources[i];
        std::byte* to = s.widen ? staging_ : slot(i);
        fill(to, s.size, n, s.data);
        if (s.widen) {
            const void* from = to;
            s.widen(&from, slot(i), n, nullptr);
        }
        pointers_[i] = slot(i);
    }

    void load(std::size_t i, std::int64_t at, std::int64_t n) {
        const Source& s = p_.sources[i];
        if (s.constant) return;
        const void* from = s.data + at * s.size;
        if (!s.direct) {
            std::byte* to = s.widen ? staging_ : slot(i);
            gather_tile(p_, s, at, n, to);
            from = to;
        }
        if (s.widen) {
            s.widen(&from, slot(i), n, nullptr);
            from = slot(i);
        }
        pointers_[i] = from;
    }

    void run_tile(std::int64_t at, std::int64_t n) {
        for (std::size_t i = 0; i < p_.sources.size(); ++i) load(i, at, n);
        for (std::size_t s = 0; s < p_.steps.size(); ++s) {
            const Prepared::Step& step = p_.steps[s];
            const std::size_t value = p_.sources.size() + s;
            const Prepared::Store* store = step.store >= 0 ? &p_.stores[static_cast<std::size_t>(step.store)] : nullptr;
            std::byte* to = p_.slot[value] >= 0 ? slot(value) : store->data + at * store->size;
            const void* in[3];
            for (int k = 0; k < step.input_count; ++k) in[k] = pointers_[static_cast<std::size_t>(step.inputs[k])];
            step.kernel(in, to, n, step.params);
            if (step.narrow) {
                const void* wide = to;
                step.narrow(&wide, staging_, n, nullptr);
                const void* narrow = staging_;
                step.widen(&narrow, to, n, nullptr);
            }
            pointers_[value] = to;
            if (!store || p_.slot[value] < 0) continue;
            if (store->narrow) {
                const void* wide = to;
                store->narrow(&wide, store->data + at * store->size, n, nullptr);
            } else {
                stream_copy(store->data + at * store->size, to, n * store->size);
            }
        }
    }

    const Prepared& p_;
    std::int64_t slot_bytes_;
    std::vector<const void*> pointers_;
    std::byte* base_ = nullptr;
    std::byte* staging_ = nullptr;
};

}  // namespace

void run_elementwise(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs) {
    const Prepared p = prepare(program, inputs, outputs);
    if (p.count == 0) return;
    if (p.shape.rank() > 64) fail_internal("an elementwise chain over more than 64 axes that do not merge");
    const std::int64_t tiles = (p.count + p.tile - 1) / p.tile;
    parallel_for(tiles, std::max<std::int64_t>(1, parallel_grain / p.tile), [&](std::int64_t first, std::int64_t last) {
        Worker(p).run(first * p.tile, std::min(p.count, last * p.tile));
    });
}

}  // namespace calor::cpu
