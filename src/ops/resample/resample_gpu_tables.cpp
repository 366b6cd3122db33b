// Axes and tables for the GPU kernels of resample. Tables are a few kilobytes that a program uses again and again, so
// the last ones stay on the device.
#include "ops/resample/resample_gpu.h"

#include <list>

namespace calor::ops::resample {

std::vector<Axis> axes_of(const graph::Call& call) {
    const View &x = call.inputs[0], &y = call.outputs[0];
    const auto& a = call.attrs<Attributes>();
    Dims order;
    for (std::int64_t d = 0; d < y.rank(); ++d) {
        if (y.size(d) != 1 || a.table_of(d)) order.push_back(d);
    }
    std::ranges::stable_sort(
        order, [&](std::int64_t p, std::int64_t q) { return std::abs(y.stride(p)) > std::abs(y.stride(q)); });
    std::vector<Axis> axes;
    for (const std::int64_t d : order) {
        const Axis axis{x.size(d), y.size(d), x.stride(d), a.table_of(d), d};
        if (!axes.empty() && !axis.table && !axes.back().table && axes.back().stride == axis.stride * axis.in) {
            axes.back() = {axes.back().in * axis.in, axes.back().out * axis.out, axis.stride, nullptr, d};
        } else {
            axes.push_back(axis);
        }
    }
    if (axes.empty()) axes.emplace_back();
    return axes;
}

namespace {

/// The numbers of all tables as the kernels take them.
struct Packed {
    std::vector<std::int32_t> ints;
    std::vector<std::int64_t> indices;  ///< where a table's indices begin
    std::vector<double> weights;
    std::vector<std::int32_t> fixed;

    explicit Packed(const std::vector<const Table*>& tables, bool fixed_point) : ints(4 * tables.size(), 0) {
        for (std::size_t i = 0; i < tables.size(); ++i) {
            const Table& t = *tables[i];
            const auto here = [&] { return static_cast<std::int32_t>(ints.size()); };
            const auto put = [&](std::size_t at, std::int32_t value) { ints[4 * i + at] = value; };
            put(0, here());
            ints.insert(ints.end(), t.start.begin(), t.start.end());
            ints.resize((ints.size() + 3) / 4 * 4);  // select.kernel reads four at once
            put(1, here());
            indices.push_back(here());
            ints.insert(ints.end(), t.index.begin(), t.index.end());
            put(3, -1);
            if (fixed_point) {
                put(2, static_cast<std::int32_t>(fixed.size()));
                fixed.insert(fixed.end(), t.fixed.begin(), t.fixed.end());
                continue;
            }
            put(2, static_cast<std::int32_t>(weights.size()));
            weights.insert(weights.end(), t.weight.begin(), t.weight.end());
            if (t.divisors.empty()) continue;
            put(3, static_cast<std::int32_t>(weights.size()));
            weights.insert(weights.end(), t.divisors.begin(), t.divisors.end());
        }
    }
};

template <class T> Ref<Storage> upload(const graph::Call& call, const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    Ref<Storage> memory = graph::scratch(call, std::max<std::int64_t>(bytes, 8));
    if (bytes > 0) call.backend.stream().copy_to_device(memory->data, values.data(), bytes);
    return memory;
}

DeviceTables uploaded(const graph::Call& call, const std::vector<const Table*>& tables, Weights weights) {
    const Packed packed(tables, weights == Weights::fixed_point);
    DeviceTables made;
    made.indices = packed.indices;
    for (std::size_t i = 0; i < std::min<std::size_t>(tables.size(), 3); ++i) {
        made.places.start[i] = packed.ints[4 * i];
        made.places.index[i] = packed.ints[4 * i + 1];
        made.places.weight[i] = packed.ints[4 * i + 2];
        made.places.divisor[i] = packed.ints[4 * i + 3];
    }
    made.ints = upload(call, packed.ints);
    switch (weights) {
        case Weights::f64: made.weights = upload(call, packed.weights); break;
        case Weights::f32:
            made.weights = upload(call, std::vector<float>(packed.weights.begin(), packed.weights.end()));
            break;
        case Weights::fixed_point: made.weights = upload(call, packed.fixed); break;
    }
    for (const Table* t : tables) made.divisor *= weights == Weights::fixed_point ? 1 : t->divisor;
    return made;
}

}  // namespace

DeviceTables tables_on_device(const graph::Call& call, const std::vector<const Table*>& tables, Weights weights) {
    struct Kept {
        Backend* backend;
        Weights weights;
        std::vector<TableRef> tables;  ///< kept alive, so that an address names one table
        DeviceTables made;
    };
    constexpr std::size_t most_kept = 32, most_bytes = 1 << 20;
    static std::mutex mutex;
    static auto& kept = *new std::list<Kept>;  // devices are never destroyed either
    const std::lock_guard lock(mutex);
    for (auto it = kept.begin(); it != kept.end(); ++it) {
        const bool same = it->backend == &call.backend && it->weights == weights &&
                          std::ranges::equal(it->tables, tables, {}, [](const TableRef& t) { return t.get(); });
        if (!same) continue;
        kept.splice(kept.begin(), kept, it);
        return it->made;
    }
    DeviceTables made = uploaded(call, tables, weights);
    if (static_cast<std::size_t>(made.ints->bytes + made.weights->bytes) > most_bytes) return made;
    std::vector<TableRef> owned;
    for (const Table* t : tables) {
        for (const TableRef& r : call.attrs<Attributes>().tables) {
            if (r.get() == t) {
                owned.push_back(r);
                break;
            }
        }
    }
    kept.push_front({&call.backend, weights, std::move(owned), made});
    if (kept.size() > most_kept) kept.pop_back();
    return made;
}

}  // namespace calor::ops::resample
