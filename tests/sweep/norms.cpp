// softmax.h, norm.h, random.h.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

const std::vector<Must> last_axis = {{"t0 undefined", "tensor/undefined"},
                                     {"i0 = 2^", "axis/range"},
                                     {"i0 = m", "axis/range"},
                                     {"i0 = -2^", "axis/range"},
                                     {"i0 = -7", "axis/range"}};
std::vector<Must> epsilon(std::vector<Must> more) {
    for (const char* value : {"r0 = nan", "r0 = inf", "r0 = -"}) more.push_back({value, "value/option"});
    more.push_back({"t0 undefined", "tensor/undefined"});
    return more;
}

}  // namespace

Table norm_rows() {
    const Input scale{"C", f32, 0, true};
    const std::vector<Must> channels = epsilon({{"t0 rank 0", "shape/rank"},
                                                {"t0 rank 1", "shape/rank"},
                                                {"t1 axis 0 longer", "shape/mismatch"},
                                                {"t1 rank 2", "shape/mismatch"},
                                                {"t1 dtype i", "dtype/mismatch"},
                                                {"t1 dtype f64", "dtype/mismatch"}});
    const auto with = [&](std::vector<Must> more) {
        more.insert(more.end(), channels.begin(), channels.end());
        return more;
    };
    const Must absurd_axes[] = {
        {"i0 = 0", "value/option"}, {"i0 = 2", "value/option"}, {"i0 = m", "value/option"}, {"i0 = -", "value/option"}};
    const auto last_axes = [&](std::vector<Must> more) {
        more.insert(more.end(), std::begin(absurd_axes), std::end(absurd_axes));
        return epsilon(std::move(more));
    };
    return {
        {"softmax",
         "",
         {{"NCH"}},
         {1},
         {},
         {},
         [](A a) -> R { return {softmax(a.tensors[0], a.integers[0])}; },
         last_axis},
        {"log_softmax",
         "",
         {{"NCH"}},
         {1},
         {},
         {},
         [](A a) -> R { return {log_softmax(a.tensors[0], a.integers[0])}; },
         last_axis},
        {"softmax_cross_entropy",
         "",
         {{"NCH"}, {"NH", i64, 4}},
         {1},
         {},
         {},
         [](A a) -> R { return {softmax_cross_entropy(a.tensors[0], a.tensors[1], a.integers[0])}; },
         {{"t0 undefined", "tensor/undefined"},
          {"t1 undefined", "tensor/undefined"},
          {"t1 index", "index/range"},
          {"t0 dtype i", "dtype/unsupported"},
          {"t1 dtype f", "dtype/unsupported"},
          {"t1 axis 0 longer", "shape/mismatch"},
          {"i0 = 2^", "axis/range"},
          {"i0 = m", "axis/range"}},
         {},
         false},
        {"batch_norm",
         "",
         {{"NCH"}, scale, scale},
         {},
         {1e-5},
         {},
         [](A a) -> R {
             const auto result = batch_norm(a.tensors[0], a.tensors[1], a.tensors[2], a.reals[0]);
             return {result.output, result.mean, result.variance};
         },
         channels},
        {"batch_norm_inference",
         "",
         {{"NCH"}, {"C"}, {"C"}, scale, scale},
         {},
         {1e-5},
         {},
         [](A a) -> R {
             return {batch_norm_inference(a.tensors[0], a.tensors[1], a.tensors[2], a.tensors[3], a.tensors[4],
                                          a.reals[0])};
         },
         with({{"t1 undefined", "tensor/undefined"},
               {"t2 undefined", "tensor/undefined"},
               {"t3 rank 2", "shape/mismatch"}})},
        {"layer_norm",
         "",
         {{"NCH"}, {"CH", f32, 0, true}, {"CH", f32, 0, true}},
         {2},
         {1e-5},
         {},
         [](A a) -> R { return {layer_norm(a.tensors[0], a.integers[0], a.tensors[1], a.tensors[2], a.reals[0])}; },
         last_axes({{"t1 axis 0 longer", "shape/mismatch"},
                    {"t2 rank 1", "shape/mismatch"},
                    {"t1 dtype i", "dtype/mismatch"}})},
        {"rms_norm",
         "",
         {{"NCH"}, {"CH", f32, 0, true}},
         {2},
         {1e-6},
         {},
         [](A a) -> R { return {rms_norm(a.tensors[0], a.integers[0], a.tensors[1], a.reals[0])}; },
         last_axes({{"t1 axis 0 longer", "shape/mismatch"}, {"t1 dtype i", "dtype/mismatch"}})},
        {"group_norm",
         "",
         {{"NCH"}, scale, scale},
         {2},
         {1e-5},
         {},
         [](A a) -> R { return {group_norm(a.tensors[0], a.integers[0], a.tensors[1], a.tensors[2], a.reals[0])}; },
         with({{"i0 = 0", "value/option"},
               {"i0 = -", "value/option"},
               {"i0 = m", "value/option"},
               {"i0 = 2^", "value/option"}})},
        {"instance_norm",
         "",
         {{"NCH"}, scale, scale},
         {},
         {1e-5},
         {},
         [](A a) -> R { return {instance_norm(a.tensors[0], a.tensors[1], a.tensors[2], a.reals[0])}; },
         channels},
    };
}

Table random_rows() {
    const auto shaped = [](std::vector<Must> more) {
        for (const char* label : {"l0[0] = -", "l0[0] = min", "l0[1] = -"}) more.push_back({label, "shape/negative"});
        more.push_back({"l0[0] = max", "shape/overflow"});
        return more;
    };
    return {
        {"uniform",
         "",
         {},
         {},
         {0, 1},
         {{2, 3}},
         [](A a) -> R { return {uniform(a.lists[0], a.reals[0], a.reals[1])}; },
         shaped({{"r0 = nan", "value/option"}, {"r0 = inf", "value/option"}, {"r1 = -1", "value/option"}})},
        {"normal",
         "",
         {},
         {},
         {0, 1},
         {{2, 3}},
         [](A a) -> R { return {normal(a.lists[0], a.reals[0], a.reals[1], f64)}; },
         shaped({{"r0 = nan", "value/option"}, {"r1 = inf", "value/option"}, {"r1 = -1", "value/option"}})},
        {"truncated_normal",
         "",
         {},
         {},
         {0, 1, -2, 2},
         {{2, 3}},
         [](A a) -> R { return {truncated_normal(a.lists[0], a.reals[0], a.reals[1], a.reals[2], a.reals[3], f16)}; },
         shaped({{"r0 = nan", "value/option"}, {"r2 = nan", "value/option"}, {"r3 = -1e308", "value/option"}}),
         {},
         false},
        {"bernoulli",
         "number",
         {},
         {},
         {0.5},
         {{2, 3}},
         [](A a) -> R { return {bernoulli(a.reals[0], a.lists[0])}; },
         shaped({{"r0 = nan", "value/option"}, {"r0 = -1", "value/option"}, {"r0 = inf", "value/option"}})},
        {"bernoulli",
         "tensor",
         {{"NC"}},
         {},
         {},
         {},
         [](A a) -> R { return {bernoulli(a.tensors[0])}; },
         {{"t0 undefined", "tensor/undefined"}, {"t0 dtype i", "dtype/unsupported"}}},
        {"bernoulli",
         "outside",
         {{"NC"}},
         {},
         {2},
         {},
         [](A a) -> R {
             const bool good = a.reals[0] == 2;
             return {bernoulli(good ? a.tensors[0] : full_like(a.tensors[0], a.reals[0]))};
         },
         {{"r0 = nan", "value/option"}, {"r0 = inf", "value/option"}, {"r0 = -1", "value/option"}},
         {},
         false},
        {"randint",
         "",
         {},
         {0, 10},
         {},
         {{2, 3}},
         [](A a) -> R { return {randint(a.integers[0], a.integers[1], a.lists[0])}; },
         shaped({{"i1 = -", "value/option"}, {"i1 = min", "value/option"}, {"i0 = max", "value/option"}}),
         {},
         false},
        {"randint",
         "u8",
         {},
         {0, 10},
         {},
         {},
         [](A a) -> R { return {randint(a.integers[0], a.integers[1], {3}, u8)}; },
         {{"i1 = 2", "value/scalar"}, {"i1 = max", "value/scalar"}},
         {},
         false},
        {"permutation",
         "",
         {},
         {5},
         {},
         {},
         [](A a) -> R { return {permutation(a.integers[0])}; },
         {{"i0 = -", "shape/negative"}, {"i0 = min", "shape/negative"}}},
        {"permutation",
         "i8",
         {},
         {5},
         {},
         {},
         [](A a) -> R { return {permutation(a.integers[0], i8)}; },
         {{"i0 = 2", "value/scalar"}, {"i0 = max", "value/scalar"}}},
    };
}

}  // namespace calor::testing::sweep
