// Setting a network's state from a file: everything is checked before anything is changed.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "calor/io.h"
#include "core/fail.h"

namespace calor::io {
namespace {

/// "a, b, c", shortened after 20 names.
class NameList {
public:
    void add(std::string_view name) {
        if (++count_ > 20) return;
        text_ += fmt::format("{}{}", text_.empty() ? "" : ", ", name);
    }
    bool empty() const { return count_ == 0; }
    std::string text() const { return count_ > 20 ? fmt::format("{} and {} more", text_, count_ - 20) : text_; }

private:
    std::int64_t count_ = 0;
    std::string text_;
};

bool same_kind(DType a, DType b) {
    return a == b || (is_floating(a) && is_floating(b)) || (is_integer(a) && is_integer(b));
}

}  // namespace

void detail::assign_state(const nn::State& state, const TensorFile& file, const std::string& path,
                          const LoadOptions& options, const Where& where) {
    std::unordered_map<std::string_view, const Tensor*> held;
    for (const NamedTensor& t : file.tensors) held.emplace(t.name, &t.value);
    NameList missing, unexpected, wrong;
    std::unordered_set<std::string_view> known;
    std::vector<std::pair<StateCell*, Tensor>> changes;
    for (const nn::NamedCell& n : state) {
        known.insert(n.name);
        const auto found = held.find(n.name);
        if (found == held.end()) {
            missing.add(n.name);
            continue;
        }
        const Tensor &from = *found->second, &to = n.value();
        if (from.shape() != to.shape() || !same_kind(from.dtype(), to.dtype())) {
            wrong.add(fmt::format("{} ({} in the file, {} in the network)", n.name, describe(from), describe(to)));
            continue;
        }
        changes.emplace_back(n.cell.get(), from.dtype() == to.dtype() ? from : from.to(to.dtype(), where));
    }
    for (const NamedTensor& t : file.tensors) {
        if (!known.contains(t.name)) unexpected.add(t.name);
    }
    if (!wrong.empty()) fail("io/mismatch", "load_model", where, {{"path", path}, {"names", wrong.text()}});
    if (options.strict && !missing.empty())
        fail("io/missing", "load_model", where, {{"path", path}, {"names", missing.text()}});
    if (options.strict && !unexpected.empty()) {
        fail("io/unexpected", "load_model", where, {{"path", path}, {"names", unexpected.text()}});
    }
    std::vector<Tensor> values;
    for (const auto& change : changes) values.push_back(change.second);
    calor::eval(values, where);
    for (const auto& [cell, value] : changes) cell->put(value);
}

}  // namespace calor::io
