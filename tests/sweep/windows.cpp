// The rest of pool.h, and unfold.h: adaptive, fractional and lp pooling, unpooling, windows, folding, shuffling.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

Table pools() {
    const std::vector<Must> adaptive = {{"t0 undefined", "tensor/undefined"}, {"t0 rank 0", "pool/rank"},
                                        {"t0 rank 2", "pool/rank"},           {"l0 longer", "value/count"},
                                        {"l0[0] = -", "value/option"},        {"l0[1] = -7", "value/option"}};
    return {
        {"adaptive_max_pool",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {adaptive_max_pool(a.tensors[0], {.size = a.lists[0]})}; },
         adaptive},
        {"adaptive_max_pool_with_indices",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R {
             const MaxPoolResult result = adaptive_max_pool_with_indices(a.tensors[0], {.size = a.lists[0]});
             return {result.values, result.indices};
         },
         adaptive},
        {"fractional_max_pool",
         "",
         {{"NCHW"}},
         {},
         {},
         {{2, 2}, {3, 2}},
         [](A a) -> R {
             const MaxPoolResult result = fractional_max_pool(a.tensors[0], {.kernel = a.lists[0], .size = a.lists[1]});
             return {result.values, result.indices};
         },
         {{"t0 undefined", "tensor/undefined"},
          {"t0 rank 0", "pool/rank"},
          {"l0[0] = 0", "value/option"},
          {"l0[0] = -", "value/option"},
          {"l1[0] = -", "value/option"},
          {"l0 longer", "value/count"}}},
        {"fractional_max_pool",
         "ratio",
         {{"NCHW"}, {"NC2"}},
         {},
         {0.5},
         {},
         [](A a) -> R {
             return {fractional_max_pool(a.tensors[0], {.kernel = 2, .ratio = {a.reals[0]}, .samples = a.tensors[1]})
                         .values};
         },
         {{"r0 = nan", "value/option"},
          {"r0 = inf", "value/option"},
          {"r0 = -1", "value/option"},
          {"t1 axis 0 longer", "shape/mismatch"},
          {"t1 rank 1", "shape/mismatch"},
          {"t1 dtype i", "dtype/unsupported"}}},
        {"max_unpool",
         "",
         {{"NCPQ"}, {"NCPQ", i64, 30}},
         {},
         {},
         {{6, 5}},
         [](A a) -> R { return {max_unpool(a.tensors[0], a.tensors[1], a.lists[0])}; },
         {{"t0 undefined", "tensor/undefined"},
          {"t1 undefined", "tensor/undefined"},
          {"t0 rank 0", "pool/rank"},
          {"t1 index", "index/range"},
          {"t1 dtype f", "dtype/unsupported"},
          {"t1 axis 0 longer", "shape/mismatch"},
          {"l0 longer", "value/count"},
          {"l0[0] = -", "shape/negative"}}},
        {"lp_pool",
         "",
         {{"NCHW"}},
         {1},
         {2},
         {{3, 2}, {2, 1}, {1, 0}, {1, 1}, {1, 2}},
         [](A a) -> R {
             return {lp_pool(a.tensors[0], {.p = a.reals[0],
                                            .kernel = a.lists[0],
                                            .stride = a.lists[1],
                                            .padding = WindowPadding(a.lists[2], a.lists[3]),
                                            .dilation = a.lists[4],
                                            .ceil_mode = a.integers[0] != 0})};
         },
         {
             {"t0 undefined", "tensor/undefined"},
             {"t0 rank 0", "pool/rank"},
             {"r0 = nan", "value/option"},
             {"r0 = 0", "value/option"},
             {"r0 = -", "value/option"},
             {"l0[0] = 0", "value/option"},
             {"l1[0] = -", "value/option"},
             {"l2[0] = -", "value/option"},
             {"l4[0] = 0", "value/option"},
             {"t0 dtype i", "dtype/unsupported"},
         }},
    };
}

Table columns() {
    const auto windowed = [](std::vector<Must> more) {
        for (const char* label : {"l0[0] = 0", "l0[0] = -", "l1[0] = 0", "l2[0] = -", "l3[1] = min"}) {
            more.push_back({label, "value/option"});
        }
        for (const char* label : {"l0 longer", "l1 longer", "l3 shorter"}) more.push_back({label, "value/count"});
        more.push_back({"t0 undefined", "tensor/undefined"});
        return more;
    };
    const std::vector<Dims> lists = {{3, 2}, {2, 1}, {1, 0}, {1, 2}};
    return {
        {"windows",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}, {2, 1}, {1, 0}, {1, 2}, {2, 3}},
         [](A a) -> R {
             return {windows(a.tensors[0], {.kernel = a.lists[0],
                                            .stride = a.lists[1],
                                            .padding = a.lists[2],
                                            .dilation = a.lists[3],
                                            .axes = a.lists[4]})};
         },
         windowed({{"l4[0] = m", "axis/range"}, {"l4[0] = 2^", "axis/range"}, {"empty H", "unfold/kernel-too-large"}})},
        {"windows",
         "view",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}, {2, 1}},
         [](A a) -> R { return {windows(a.tensors[0], {.kernel = a.lists[0], .stride = a.lists[1]})}; }},
        {"unfold",
         "",
         {{"NCHW"}},
         {},
         {},
         lists,
         [](A a) -> R {
             return {
                 unfold(a.tensors[0],
                        {.kernel = a.lists[0], .stride = a.lists[1], .padding = a.lists[2], .dilation = a.lists[3]})};
         },
         windowed({{"t0 rank 0", "shape/rank"}})},
        {"fold",
         "",
         {{"N66"}},
         {},
         {},
         {{3, 2}, {1, 1}, {0, 0}, {1, 1}, {5, 3}},
         [](A a) -> R {
             return {fold(a.tensors[0], a.lists[4],
                          {.kernel = a.lists[0], .stride = a.lists[1], .padding = a.lists[2], .dilation = a.lists[3]})};
         },
         windowed({{"t0 axis 2 longer", "fold/columns"}, {"t0 dtype bool", "dtype/unsupported"}}),
         {},
         false},
        {"pixel_shuffle",
         "",
         {{"N6HW"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {pixel_shuffle(a.tensors[0], a.lists[0])}; },
         {{"t0 undefined", "tensor/undefined"},
          {"t0 rank 0", "shape/rank"},
          {"l0[0] = 0", "value/option"},
          {"l0[0] = -", "value/option"},
          {"l0 longer", "value/count"},
          {"t0 axis 1 longer", "shuffle/channels"}}},
        {"pixel_unshuffle",
         "",
         {{"NCHP"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {pixel_unshuffle(a.tensors[0], a.lists[0])}; },
         {{"t0 undefined", "tensor/undefined"},
          {"t0 rank 0", "shape/rank"},
          {"l0[0] = 0", "value/option"},
          {"l0[0] = -", "value/option"},
          {"l0 longer", "value/count"},
          {"t0 axis 2 longer", "shuffle/sizes"}}},
    };
}

}  // namespace

Table window_rows() {
    Table rows = pools();
    for (Row& row : rows) row.shows = row.name != "fractional_max_pool";  // its sizes follow from ratios
    for (Row& row : columns()) rows.push_back(std::move(row));
    return rows;
}

}  // namespace calor::testing::sweep
