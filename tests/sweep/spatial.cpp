// matmul.h, conv.h, pool.h.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

/// The lists that describe a window: stride, low padding, high padding, dilation, from `first` on.
ConvOptions conv_options(A a, std::size_t first) {
    return {.stride = a.lists[first],
            .padding = WindowPadding(a.lists[first + 1], a.lists[first + 2]),
            .dilation = a.lists[first + 3],
            .groups = a.integers[0]};
}
ConvTransposeOptions transpose_options(A a) {
    return {.stride = a.lists[0],
            .padding = WindowPadding(a.lists[1], a.lists[2]),
            .output_padding = a.lists[3],
            .dilation = a.lists[4],
            .groups = a.integers[0]};
}
/// Errors of window lists l<first> (stride), + 1 and + 2 (padding), + 3 (dilation).
std::vector<Must> window(int first, std::vector<Must> more) {
    const auto list = [](int l) { return "l" + std::to_string(l); };
    for (const int l : {first, first + 3}) {
        for (const char* value : {"[0] = 0", "[0] = -", "[1] = min"}) more.push_back({list(l) + value, "value/option"});
    }
    for (const int l : {first + 1, first + 2}) {
        for (const char* value : {"[0] = -", "[1] = min"}) more.push_back({list(l) + value, "value/option"});
    }
    for (int l = first; l < first + 4; ++l) {
        for (const char* change : {" longer", " shorter", " of 70"}) more.push_back({list(l) + change, "value/count"});
    }
    return more;
}
Table convolutions() {
    const std::vector<Must> two = {{"t0 undefined", "tensor/undefined"},
                                   {"t1 undefined", "tensor/undefined"},
                                   {"t1 dtype f64", "dtype/mismatch"},
                                   {"t1 dtype i", "dtype/mismatch"},
                                   {"i0 = 0", "conv/groups"},
                                   {"i0 = -", "conv/groups"},
                                   {"i0 = m", "conv/groups"},
                                   {"dtype bool", "dtype/unsupported"}};
    const auto with = [&](std::vector<Must> more) {
        more.insert(more.end(), two.begin(), two.end());
        return more;
    };
    return {
        {"conv",
         "",
         {{"NCHW"}, {"OCKL"}, {"O", f32, 0, true}},
         {1},
         {},
         {{1, 1}, {1, 0}, {0, 1}, {1, 1}},
         [](A a) -> R { return {conv(a.tensors[0], a.tensors[1], a.tensors[2], conv_options(a, 0))}; },
         window(0, with({{"t0 rank 0", "conv/rank"},
                         {"t0 rank 1", "conv/rank"},
                         {"t0 rank +", "conv/rank"},
                         {"t1 rank +", "conv/rank"},
                         {"t0 axis 1 longer", "conv/channels"},
                         {"t0 axis 2 empty", "conv/empty"},
                         {"t2 axis 0 longer", "conv/bias"},
                         {"l3[0] = 2^30", "value/option"},
                         {"l3[0] = 2^32", "value/option"},
                         {"t2 rank 2", "conv/bias"},
                         {"t2 dtype f64", "dtype/mismatch"}}))},
        {"conv",
         "groups",
         {{"NCHW"}, {"O2KL"}},
         {2},
         {},
         {{2, 2}, {0, 0}, {0, 0}, {1, 2}},
         [](A a) -> R { return {conv(a.tensors[0], a.tensors[1], conv_options(a, 0))}; },
         window(0, with({}))},
        {"conv",
         "one axis, same",
         {{"NCH"}, {"OCK"}},
         {},
         {},
         {{2}, {2}},
         [](A a) -> R {
             return {conv(a.tensors[0], a.tensors[1], {.stride = a.lists[0], .padding = same, .dilation = a.lists[1]})};
         },
         {{"l0[0] = 0", "value/option"}, {"l0[0] = -", "value/option"}, {"l1[0] = min", "value/option"}}},
        {"conv",
         "three axes",
         {{"NCHWD"}, {"OCKLL"}},
         {},
         {},
         {},
         [](A a) -> R { return {conv(a.tensors[0], a.tensors[1], {.padding = 1})}; }},
        {"conv",
         "four axes",
         {{"NCHWDD"}, {"OCKLLL"}},
         {},
         {},
         {},
         [](A a) -> R {
             return {conv(a.tensors[0], a.tensors[1], {.dilation = {1, 2, 1, 2}})};
         }},
        {"conv",
         "empty batch",
         {{"0CHW"}, {"OCKL"}},
         {1},
         {},
         {{1, 1}, {1, 0}, {0, 1}, {1, 1}},
         [](A a) -> R { return {conv(a.tensors[0], a.tensors[1], conv_options(a, 0))}; }},
        {"conv_transpose",
         "empty batch",
         {{"0CHW"}, {"COKL"}},
         {1},
         {},
         {{2, 2}, {1, 0}, {0, 1}, {1, 0}, {1, 2}},
         [](A a) -> R { return {conv_transpose(a.tensors[0], a.tensors[1], transpose_options(a))}; }},
        {"deform_conv",
         "",
         {{"NCHW"}, {"NXPQ"}, {"O2KL"}, {"NYPQ", f32, 0, true}, {"O", f32, 0, true}},
         {2, 1},
         {},
         {{1, 1}, {0, 0}, {0, 0}, {1, 1}},
         [](A a) -> R {
             return {deform_conv(a.tensors[0], a.tensors[1], a.tensors[2],
                                 {.stride = a.lists[0],
                                  .padding = WindowPadding(a.lists[1], a.lists[2]),
                                  .dilation = a.lists[3],
                                  .groups = a.integers[0],
                                  .offset_groups = a.integers[1],
                                  .mask = a.tensors[3],
                                  .bias = a.tensors[4]})};
         },
         {{"t0 undefined", "tensor/undefined"},
          {"t1 undefined", "tensor/undefined"},
          {"t2 undefined", "tensor/undefined"},
          {"t0 rank 0", "conv/rank"},
          {"t1 axis 2 longer", "deform/offset"},
          {"t3 axis 1 longer", "deform/mask"},
          {"t4 axis 0 longer", "conv/bias"},
          {"i0 = 0", "conv/groups"},
          {"i1 = 0", "deform/groups"},
          {"i1 = m", "deform/groups"},
          {"l0[0] = 0", "value/option"},
          {"l3[1] = -", "value/option"}}},
        {"conv_input_grad",
         "",
         {{"NOPQ"}, {"OCKL"}},
         {1},
         {},
         {{6, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
         [](A a) -> R { return {conv_input_grad(a.tensors[0], a.tensors[1], a.lists[0], conv_options(a, 1))}; },
         window(1, with({{"t0 axis 2 longer", "shape/mismatch"},
                         {"t0 rank 0", "conv/rank"},
                         {"l0 longer", "value/count"},
                         {"l0[0] = -", "value/option"},
                         {"l0[0] = min", "value/option"}}))},
        {"conv_weight_grad",
         "",
         {{"NCHW"}, {"NOPQ"}},
         {1},
         {},
         {{3, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
         [](A a) -> R { return {conv_weight_grad(a.tensors[0], a.tensors[1], a.lists[0], conv_options(a, 1))}; },
         window(1, with({{"t1 axis 2 longer", "shape/mismatch"},
                         {"t0 rank 0", "shape/rank"},
                         {"l0 longer", "value/count"},
                         {"l0[0] = 0", "value/option"},
                         {"l0[0] = -", "value/option"}}))},
        {"conv_transpose",
         "",
         {{"NCHW"}, {"COKL"}, {"O", f32, 0, true}},
         {1},
         {},
         {{2, 2}, {1, 0}, {0, 1}, {1, 0}, {1, 2}},
         [](A a) -> R { return {conv_transpose(a.tensors[0], a.tensors[1], a.tensors[2], transpose_options(a))}; },
         with({{"l0[0] = 0", "value/option"},
               {"l0[0] = -", "value/option"},
               {"l1[0] = -", "value/option"},
               {"l3[0] = -", "value/option"},
               {"l3[0] = 2^", "value/option"},
               {"l4[0] = 0", "value/option"},
               {"l0 longer", "value/count"},
               {"l3 longer", "value/count"},
               {"l4 of 70", "value/count"},
               {"t0 rank 0", "conv/rank"},
               {"t0 axis 1 longer", "conv/channels"},
               {"t2 axis 0 longer", "conv/bias"}})},
        {"conv_transpose",
         "output_size",
         {{"NCHW"}, {"C3KL"}},
         {2},
         {},
         {{14, 10}},
         [](A a) -> R {
             return {conv_transpose(a.tensors[0], a.tensors[1],
                                    {.stride = 2, .output_size = a.lists[0], .groups = a.integers[0]})};
         },
         with({{"l0[0] = -", "value/option"},
               {"l0[0] = 2^", "value/option"},
               {"l0[0] = m", "value/option"},
               {"l0 longer", "value/count"}})},
    };
}

std::vector<Must> pooling(bool ceil, std::vector<Must> more) {
    for (const char* value : {"[0] = 0", "[0] = -", "[1] = min"})
        more.push_back({std::string("l0") + value, "value/option"});
    for (const char* change : {" longer", " of 70", " shorter"})
        more.push_back({std::string("l0") + change, "value/count"});
    for (const char* label : {"t0 rank 0", "t0 rank 1", "t0 rank 2"}) more.push_back({label, "pool/rank"});
    more.push_back({"t0 undefined", "tensor/undefined"});
    more.push_back({"t0 rank +", "value/count"});
    more.push_back({"l0 empty", "value/option"});
    if (!ceil) more.push_back({"empty H", "pool/kernel-too-large"});
    more.push_back({"l2[0] = 2^30", "pool/padding"});
    more.push_back({"l2[0] = 2^32", "value/option"});
    return window(1, more);
}
template <class Options> Options pool_options(A a) {
    return {.kernel = a.lists[0],
            .stride = a.lists[1],
            .padding = WindowPadding(a.lists[2], a.lists[3]),
            .dilation = a.lists[4],
            .ceil_mode = a.integers[0] != 0};
}

Table pools() {
    const std::vector<Dims> lists = {{3, 2}, {2, 1}, {1, 0}, {1, 1}, {1, 2}};
    Table rows;
    for (const std::int64_t ceil : {0, 1}) {
        const std::string variant = ceil ? "ceil" : "";
        rows.push_back({"max_pool",
                        variant,
                        {{"NCHW"}},
                        {ceil},
                        {},
                        lists,
                        [](A a) -> R { return {max_pool(a.tensors[0], pool_options<MaxPoolOptions>(a))}; },
                        pooling(ceil != 0, {})});
        rows.push_back({"max_pool_with_indices",
                        variant,
                        {{"NCHW"}},
                        {ceil},
                        {},
                        lists,
                        [](A a) -> R {
                            const auto result = max_pool_with_indices(a.tensors[0], pool_options<MaxPoolOptions>(a));
                            return {result.values, result.indices};
                        },
                        pooling(ceil != 0, {})});
        rows.push_back(
            {"avg_pool",
             variant,
             {{"NCHW"}},
             {ceil},
             {},
             lists,
             [](A a) -> R { return {avg_pool(a.tensors[0], pool_options<AvgPoolOptions>(a))}; },
             pooling(ceil != 0, {{"t0 dtype i", "dtype/unsupported"}, {"t0 dtype bool", "dtype/unsupported"}})});
    }
    rows.push_back({"max_pool", "empty batch", {{"0CHW"}}, {0}, {}, lists, [](A a) -> R {
                        return {max_pool(a.tensors[0], pool_options<MaxPoolOptions>(a))};
                    }});
    rows.push_back({"avg_pool", "empty batch", {{"0CHW"}}, {0}, {}, lists, [](A a) -> R {
                        return {avg_pool(a.tensors[0], pool_options<AvgPoolOptions>(a))};
                    }});
    rows.push_back(
        {"avg_pool",
         "divisor",
         {{"NCHW"}},
         {5},
         {},
         {},
         [](A a) -> R {
             return {avg_pool(a.tensors[0], {.kernel = 2, .count_include_pad = false, .divisor = a.integers[0]})};
         },
         {{"i0 = -", "value/option"}, {"i0 = min", "value/option"}}});
    rows.push_back(
        {"max_pool", "same", {{"NCH"}}, {}, {}, {{3}, {2}, {2}}, [](A a) -> R {
             return {max_pool(a.tensors[0],
                              {.kernel = a.lists[0], .stride = a.lists[1], .padding = same, .dilation = a.lists[2]})};
         }});
    return rows;
}

Table matrices() {
    const std::vector<Must> two = {{"t0 undefined", "tensor/undefined"}, {"t1 undefined", "tensor/undefined"}};
    const auto with = [&](std::vector<Must> more) {
        more.insert(more.end(), two.begin(), two.end());
        return more;
    };
    return {
        {"matmul",
         "",
         {{"NHK"}, {"1KW"}},
         {},
         {},
         {},
         [](A a) -> R { return {matmul(a.tensors[0], a.tensors[1])}; },
         with({{"t0 rank 0", "shape/rank"},
               {"t1 rank 0", "shape/rank"},
               {"t0 axis 2 longer", "matmul/inner"},
               {"t1 axis 1 empty", "matmul/inner"},
               {"t1 dtype f64", "dtype/mismatch"},
               {"t1 dtype i", "dtype/mismatch"},
               {"dtype bool", "dtype/unsupported"}})},
        {"matmul",
         "vectors",
         {{"K"}, {"K"}},
         {},
         {},
         {},
         [](A a) -> R { return {matmul(a.tensors[0], a.tensors[1])}; },
         with({{"t0 axis 0 longer", "matmul/inner"}})},
        {"matmul",
         "batches",
         {{"NHK"}, {"NKW"}},
         {},
         {},
         {},
         [](A a) -> R { return {matmul(a.tensors[0], a.tensors[1])}; },
         with({{"t0 axis 0 longer", "shape/broadcast"}})},
        {"linear",
         "",
         {{"NDC"}, {"OC"}, {"O", f32, 0, true}},
         {},
         {},
         {},
         [](A a) -> R { return {linear(a.tensors[0], a.tensors[1], a.tensors[2])}; },
         with({{"t0 rank 0", "shape/rank"},
               {"t1 rank 1", "shape/rank"},
               {"t1 rank +", "shape/rank"},
               {"t0 axis 2 longer", "matmul/inner"},
               {"t2 axis 0 longer", "shape/mismatch"},
               {"t2 rank 2", "shape/mismatch"},
               {"t1 dtype f64", "dtype/mismatch"},
               {"t2 dtype f64", "dtype/mismatch"},
               {"dtype bool", "dtype/unsupported"}})},
        {"dot",
         "",
         {{"K"}, {"K"}},
         {},
         {},
         {},
         [](A a) -> R { return {dot(a.tensors[0], a.tensors[1])}; },
         with({{"t0 rank 0", "shape/rank"}, {"t0 rank 2", "shape/rank"}, {"t1 axis 0 longer", "matmul/inner"}})},
        {"outer",
         "",
         {{"H"}, {"W"}},
         {},
         {},
         {},
         [](A a) -> R { return {outer(a.tensors[0], a.tensors[1])}; },
         with({{"t0 rank 0", "shape/rank"}, {"t1 rank 2", "shape/rank"}})},
    };
}

}  // namespace

Table product_rows() { return matrices(); }
Table spatial_rows() {
    Table rows = convolutions();
    for (Row& row : rows) row.shows = row.name == "conv";  // the others compare with sizes that follow from the options
    for (Row& row : pools()) rows.push_back(std::move(row));
    return rows;
}

}  // namespace calor::testing::sweep
