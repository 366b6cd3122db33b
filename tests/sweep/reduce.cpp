// reduce.h.
#include "sweep.h"

namespace calor::testing::sweep {

Table reduce_rows() {
    using A = const Arguments&;
    using R = std::vector<Tensor>;
    using Function = Tensor (*)(const Tensor&, const Axes&, bool, const Where&);
    const std::vector<Must> wrong_axes = {{"t0 undefined", "tensor/undefined"}, {"l0 longer", "axis/duplicate"},
                                          {"l0 of 70", "axis/duplicate"},       {"l0[0] = 2", "axis/range"},
                                          {"l0[0] = m", "axis/range"},          {"l0[0] = -7", "axis/range"},
                                          {"l0[1] = max", "axis/range"},        {"t0 rank 0", "axis/range"}};
    Table rows;
    const auto add = [&](const char* name, const char* variant, std::vector<double> reals, auto call, bool nonempty) {
        Row row{name, variant, {{"NCH"}}, {}, std::move(reals), {{0, 2}}, call, wrong_axes};
        if (nonempty) {
            row.must.push_back({"empty N", "reduce/empty"});
            row.must.push_back({"empty H", "reduce/empty"});
        }
        rows.push_back(std::move(row));
    };
    const std::pair<const char*, Function> functions[] = {{"sum", sum},
                                                          {"mean", mean},
                                                          {"prod", prod},
                                                          {"max", max},
                                                          {"min", min},
                                                          {"argmax", argmax},
                                                          {"argmin", argmin},
                                                          {"any", any},
                                                          {"all", all},
                                                          {"count_nonzero", count_nonzero},
                                                          {"logsumexp", logsumexp}};
    for (const auto& [name, f] : functions) {
        const std::string text = name;
        const bool nonempty = text.find("max") != std::string::npos || text.find("min") != std::string::npos;
        for (const bool keep : {false, true}) {
            add(
                name, keep ? "keepdims" : "", {},
                [f = f, keep](A a) -> R { return {f(a.tensors[0], a.lists[0], keep, Where::current())}; }, nonempty);
        }
    }
    add(
        "var", "", {1}, [](A a) -> R { return {var(a.tensors[0], a.lists[0], false, a.reals[0])}; }, false);
    add(
        "std", "", {1}, [](A a) -> R { return {calor::std(a.tensors[0], a.lists[0], true, a.reals[0])}; }, false);
    add(
        "norm", "", {2}, [](A a) -> R { return {norm(a.tensors[0], a.reals[0], a.lists[0])}; }, false);
    rows.back().must.push_back({"r0 = nan", "value/option"});
    add(
        "norm", "infinity", {}, [](A a) -> R { return {norm(a.tensors[0], 1.0 / 0.0, a.lists[0])}; }, true);
    return rows;
}

}  // namespace calor::testing::sweep
