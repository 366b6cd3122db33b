// Runs fused elementwise programs: plans how the operands are walked, emits the text once a variant, launches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "device/gpu/disk_cache.h"
#include "device/gpu/emit.h"
#include "device/gpu/launch.h"

namespace calor::gpu {
namespace {

/// The file of a variant; the same text serves every device.
const KernelFile& file_of(const ElementwiseProgram& program, const EmitPlan& plan) {
    struct Emitted {
        std::string path, text;
        KernelFile file{};
    };
    static std::mutex mutex;
    static std::unordered_map<std::string, Emitted> files;
    const std::lock_guard lock(mutex);
    Emitted& e = files[plan.key];
    if (e.text.empty()) {
        e.path = "fused/" + hash_of(plan.key) + ".kernel";
        e.text = emit_program(program, plan);
        e.file = {e.path.c_str(), e.text.c_str()};
    }
    return e.file;
}

/// Bounds of integers come as doubles: the low one rounds up, the high one down, both saturate, NaN is no bound.
template <class T> T integer_bound(double value, int index) {
    constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    if (std::isnan(value)) return index == 0 ? least : most;
    const double whole = index == 0 ? std::ceil(value) : std::floor(value);
    if (whole <= static_cast<double>(least)) return least;
    return whole >= static_cast<double>(most) ? most : static_cast<T>(whole);
}

void add_parameter(Launch& launch, double value, const UsedParameter& p) {
    switch (p.dtype) {
        case i64: launch.value(integer_bound<std::int64_t>(value, p.index)); break;
        case i32: launch.value(integer_bound<std::int32_t>(value, p.index)); break;
        case i16: launch.value(integer_bound<std::int16_t>(value, p.index)); break;
        case i8: launch.value(integer_bound<std::int8_t>(value, p.index)); break;
        case u64: launch.value(integer_bound<std::uint64_t>(value, p.index)); break;
        case u32: launch.value(integer_bound<std::uint32_t>(value, p.index)); break;
        case u16: launch.value(integer_bound<std::uint16_t>(value, p.index)); break;
        case u8: launch.value(integer_bound<std::uint8_t>(value, p.index)); break;
        default: launch.number(value, p.dtype);
    }
}

/// A program with some of the outputs, and only the steps below them.
ElementwiseProgram with_outputs(const ElementwiseProgram& program, std::size_t first, std::size_t last,
                                std::vector<std::size_t>& inputs) {
    const int input_count = static_cast<int>(program.inputs.size());
    std::vector<bool> needed(program.inputs.size() + program.steps.size(), false);
    for (std::size_t o = first; o < last; ++o) needed[static_cast<std::size_t>(program.outputs[o])] = true;
    for (std::size_t s = program.steps.size(); s-- > 0;) {
        if (!needed[program.inputs.size() + s]) continue;
        for (const int v : program.steps[s].inputs) {
            if (v >= 0) needed[static_cast<std::size_t>(v)] = true;
        }
    }
    std::vector<int> number(needed.size(), -1);
    ElementwiseProgram part;
    part.shape = program.shape;
    int next = 0;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
        if (!needed[i]) continue;
        number[i] = next++;
        inputs.push_back(i);
        part.inputs.push_back(program.inputs[i]);
    }
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        const std::size_t value = static_cast<std::size_t>(input_count) + s;
        if (!needed[value]) continue;
        number[value] = next++;
        ElementwiseStep step = program.steps[s];
        for (int& v : step.inputs) v = v < 0 ? v : number[static_cast<std::size_t>(v)];
        part.steps.push_back(step);
    }
    for (std::size_t o = first; o < last; ++o) {
        part.outputs.push_back(number[static_cast<std::size_t>(program.outputs[o])]);
    }
    return part;
}

}  // namespace

void GpuBackend::run(const ElementwiseProgram& program, std::span<const View> inputs, std::span<const View> outputs,
                     const Where& where) {
    const std::int64_t count = numel(program.shape);
    if (count == 0) return;
    // Devices bound the bytes of a launch's arguments. Outputs are then computed in two parts; the last output, which
    // may lie in an input's memory, in the second.
    const EmitPlan plan = plan_program(program, inputs, outputs);
    const auto parameters = program_parameters(program);
    const auto strided = static_cast<std::size_t>(std::ranges::count_if(plan.access, needs_layout));
    const std::size_t argument_bytes = 16 * (inputs.size() + outputs.size()) + 8 * (parameters.size() + 1) +
                                       8 * (strided + 2) * plan.walk.sizes.size();
    if (outputs.size() > 1 && argument_bytes > static_cast<std::size_t>(traits().parameter_bytes)) {
        const std::size_t half = outputs.size() / 2;
        for (const auto& [first, last] : {std::pair{std::size_t{0}, half}, std::pair{half, outputs.size()}}) {
            std::vector<std::size_t> used;
            const ElementwiseProgram part = with_outputs(program, first, last, used);
            std::vector<View> views;
            for (const std::size_t i : used) views.push_back(inputs[i]);
            run(part, views, outputs.subspan(first, last - first), where);
        }
        return;
    }
    Launch launch(*this, file_of(program, plan), "fused", program.steps.back().traits->name, where);
    for (unsigned t = 0; t < static_cast<unsigned>(dtype_count); ++t) {
        if (plan.dtypes & (1U << t)) launch.uses(static_cast<DType>(t));
    }
    for (const View& v : inputs) launch.buffer(v);
    for (const View& v : outputs) launch.buffer(v);
    launch.size(count);
    for (const UsedParameter& p : parameters) add_parameter(launch, program.steps[p.step].params[p.index], p);
    if (!plan.flat) {
        std::vector<std::span<const std::int64_t>> lists;
        for (std::size_t i = 0; i < plan.access.size(); ++i) {
            if (needs_layout(plan.access[i])) lists.emplace_back(plan.walk.strides[i]);
        }
        launch.layout(plan.walk.sizes, lists);
    }
    launch.over(count, plan.vector);
}

}  // namespace calor::gpu
