// What all optimizers do: find gradients, record the updates, evaluate everything at once, keep and restore state.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "calor/creation.h"
#include "calor/optim.h"
#include "core/fail.h"

namespace calor::optim {

Optimizer::Optimizer(std::string_view operation, const nn::State& parameters, double learning_rate,
                     const Where& where) {
    const auto refuse = [&](std::string what) {
        fail("optim/parameters", operation, where, {{"what", std::move(what)}});
    };
    if (parameters.empty()) refuse("is empty");
    std::unordered_set<const StateCell*> cells;
    std::unordered_set<std::string_view> names;
    for (const nn::NamedCell& n : parameters) {
        if (n.cell->kind() != StateCell::Kind::parameter) refuse(fmt::format("holds the buffer '{}'", n.name));
        if (!cells.insert(n.cell.get()).second) refuse(fmt::format("holds the parameter '{}' twice", n.name));
        if (!names.insert(n.name).second) refuse(fmt::format("holds two parameters named '{}'", n.name));
        slots_.push_back({n.name, n.cell, {}, 0});
    }
    set_learning_rate(learning_rate, where);
}

void Optimizer::set_learning_rate(double rate, const Where& where) {
    if (!(rate >= 0) || !std::isfinite(rate)) {
        fail("value/option", "set_learning_rate", where,
             {{"option", "learning_rate"}, {"got", rate}, {"expected", "a finite number >= 0"}, {"help", "try 1e-3"}});
    }
    learning_rate_ = rate;
}

void Optimizer::step(const Gradients& gradients, const Where& where) {
    const Naming naming("step");
    const NoGrad guard;
    std::vector<std::pair<Slot*, Update>> updates;
    std::vector<Tensor> roots;
    for (Slot& slot : slots_) {
        if (!slot.cell->trainable()) continue;
        const Tensor& value = slot.cell->value();
        const Tensor gradient = gradients.get(value);
        if (!gradient.defined()) continue;
        if (gradient.shape() != value.shape()) {
            fail("shape/mismatch", "step", where,
                 {{"argument", "the gradient of " + slot.name},
                  {"got", gradient.shape()},
                  {"expected", value.shape()},
                  {"help", "a gradient has the shape of its parameter"}});
        }
        const DType dtype = compute_type(value.dtype());
        const OnDevice scope(value.device());
        std::vector<Tensor> moments = slot.moments;
        if (moments.empty()) moments.assign(moment_names().size(), zeros(value.shape(), dtype, where));
        Update next = update(value.to(dtype, where), gradient.to(dtype, where), moments, slot.step + 1);
        next.value = next.value.to(value.dtype(), where);
        roots.push_back(next.value);
        for (const Tensor& m : next.moments) roots.push_back(m);
        updates.emplace_back(&slot, std::move(next));
    }
    calor::eval(roots, where);
    roots.clear();
    for (auto& [slot, next] : updates) {
        slot->cell->put(next.value);
        slot->moments = std::move(next.moments);
        ++slot->step;
    }
}

NamedTensors Optimizer::state() const {
    const std::vector<std::string_view> names = moment_names();
    NamedTensors list;
    for (const Slot& slot : slots_) {
        if (slot.step == 0) continue;
        list.push_back({slot.name + ".step", scalar(slot.step, i64)});
        for (std::size_t i = 0; i < slot.moments.size(); ++i) {
            list.push_back({fmt::format("{}.{}", slot.name, names[i]), slot.moments[i]});
        }
    }
    return list;
}

void Optimizer::load_state(const NamedTensors& state, const Where& where) {
    const Naming naming("load_state");
    std::unordered_map<std::string_view, const Tensor*> held;
    for (const NamedTensor& t : state) held.emplace(t.name, &t.value);
    const std::vector<std::string_view> names = moment_names();
    const auto refuse = [&](std::string_view name, std::string what) {
        fail("optim/state", "load_state", where, {{"name", name}, {"what", std::move(what)}});
    };
    std::vector<std::pair<std::int64_t, std::vector<Tensor>>> loaded;
    std::size_t used = 0;
    for (const Slot& slot : slots_) {
        const auto take = [&](std::string_view part, const Shape& shape, DType dtype) {
            const std::string name = fmt::format("{}.{}", slot.name, part);
            const auto found = held.find(name);
            if (found == held.end()) refuse(name, "is missing");
            const Tensor& t = *found->second;
            if (!t.defined() || t.shape() != shape || t.dtype() != dtype) {
                refuse(name, fmt::format("is {}, expected {}{}", describe(t), name_of(dtype), to_string(shape)));
            }
            ++used;
            return t;
        };
        loaded.emplace_back();
        if (!held.contains(slot.name + ".step")) continue;
        auto& [step, moments] = loaded.back();
        step = take("step", {}, i64).item<std::int64_t>(where);
        if (step < 1) refuse(slot.name + ".step", fmt::format("is {}, expected 1 or more", step));
        const Tensor& value = slot.cell->value();
        for (const std::string_view name : names)
            moments.push_back(take(name, value.shape(), compute_type(value.dtype())).detach());
    }
    if (used != state.size()) {
        for (const Slot& slot : slots_) {
            held.erase(slot.name + ".step");
            for (const std::string_view name : names) held.erase(fmt::format("{}.{}", slot.name, name));
        }
        std::vector<std::string_view> rest;
        for (const auto& entry : held) rest.push_back(entry.first);
        std::ranges::sort(rest);
        refuse(rest.empty() ? std::string_view(state.back().name) : rest.front(),
               "belongs to no parameter, or stands twice");
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].step = loaded[i].first;
        slots_[i].moments = std::move(loaded[i].second);
    }
}

}  // namespace calor::optim
