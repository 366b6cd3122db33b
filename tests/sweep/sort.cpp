// sort.h and attention.h.
#include "sweep.h"

namespace calor::testing::sweep {

Table sort_rows() {
    using A = const Arguments&;
    using R = std::vector<Tensor>;
    const auto axis = [](const std::string& slot, std::vector<Must> more) {
        for (const char* label : {" = 2^", " = m", " = -7"}) more.push_back({slot + label, "axis/range"});
        more.push_back({"t0 undefined", "tensor/undefined"});
        return more;
    };
    return {
        {"sort",
         "",
         {{"NCH"}},
         {1},
         {},
         {},
         [](A a) -> R {
             const SortResult result = sort(a.tensors[0], a.integers[0]);
             return {result.values, result.indices};
         },
         axis("i0", {})},
        {"argsort",
         "",
         {{"NCH"}},
         {1},
         {},
         {},
         [](A a) -> R { return {argsort(a.tensors[0], a.integers[0], true)}; },
         axis("i0", {})},
        {"topk",
         "",
         {{"NCH"}},
         {2, 1},
         {},
         {},
         [](A a) -> R {
             const SortResult result = topk(a.tensors[0], a.integers[0], a.integers[1]);
             return {result.values, result.indices};
         },
         axis("i1", {{"i0 = -", "value/option"}, {"i0 = m", "value/option"}, {"empty C", "value/option"}})},
        {"kthvalue",
         "",
         {{"NCH"}},
         {2, 1},
         {},
         {},
         [](A a) -> R {
             const SortResult result = kthvalue(a.tensors[0], a.integers[0], a.integers[1]);
             return {result.values, result.indices};
         },
         axis("i1", {{"i0 = 0", "value/option"},
                     {"i0 = -", "value/option"},
                     {"i0 = m", "value/option"},
                     {"empty C", "value/option"}})},
        {"attention",
         "",
         {{"NHC"}, {"NWC"}, {"NWO"}, {"HW", f32, 0, true}},
         {},
         {0.5},
         {},
         [](A a) -> R {
             return {attention(a.tensors[0], a.tensors[1], a.tensors[2], {.mask = a.tensors[3], .scale = a.reals[0]})};
         },
         {{"t0 undefined", "tensor/undefined"},
          {"t2 undefined", "tensor/undefined"},
          {"t0 rank 0", "shape/rank"},
          {"t1 axis 2 longer", "shape/mismatch"},
          {"t2 axis 1 longer", "shape/mismatch"},
          {"t1 dtype f64", "dtype/mismatch"},
          {"r0 = nan", "value/option"},
          {"r0 = inf", "value/option"}}},
        {"attention",
         "causal",
         {{"NHC"}, {"NWC"}, {"NWO"}},
         {},
         {},
         {},
         [](A a) -> R { return {attention(a.tensors[0], a.tensors[1], a.tensors[2], {.causal = true})}; }},
    };
}

}  // namespace calor::testing::sweep
