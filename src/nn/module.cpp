// Lists of a module's state.
#include "calor/nn/module.h"

#include <algorithm>

#include "core/fail.h"

namespace calor::nn {

void detail::StateCollector::add(const std::shared_ptr<StateCell>& cell) {
    if (!cell) return;
    const auto same = [&](const NamedCell& n) { return n.cell == cell; };
    if (what_ != What::everything && std::ranges::any_of(state_, same)) return;  // a module that two fields share
    state_.push_back({path(), cell});
}

std::int64_t detail::count_elements(const State& state) {
    std::int64_t total = 0;
    for (const NamedCell& n : state) total += n.value().numel();
    return total;
}

void detail::set_trainable(const State& state, bool on) {
    for (const NamedCell& n : state) n.cell->set_trainable(on);
}

NamedTensors named_tensors(const State& state) {
    NamedTensors list;
    for (const NamedCell& n : state) list.push_back({n.name, n.value().detach()});
    return list;
}

}  // namespace calor::nn
