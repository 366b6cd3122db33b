// nn/loss.h, nn/init.h, nn/dropout.h and the layers: each is made with the row's numbers and called with its tensor.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

const std::vector<Must> compared = {{"t0 undefined", "tensor/undefined"},   {"t1 undefined", "tensor/undefined"},
                                    {"t0 dtype i", "dtype/unsupported"},    {"t0 dtype bool", "dtype/unsupported"},
                                    {"t1 axis 0 longer", "shape/mismatch"}, {"t1 axis 1 single", "shape/mismatch"},
                                    {"t1 rank 0", "shape/mismatch"}};
std::vector<Must> compared_and(std::vector<Must> more) {
    more.insert(more.end(), compared.begin(), compared.end());
    return more;
}
std::vector<Must> classes(std::vector<Must> more) {
    for (const char* t : {"t0 undefined", "t1 undefined"}) more.push_back({t, "tensor/undefined"});
    for (const char* label : {"t0 dtype i", "t0 dtype bool", "t1 dtype bool", "t2 dtype i"}) {
        more.push_back({label, "dtype/unsupported"});
    }
    more.push_back({"t0 rank 0", "shape/rank"});
    for (const char* label : {"t1 axis 0 longer", "t1 rank 0", "t2 axis 0 longer"})
        more.push_back({label, "shape/mismatch"});
    return more;
}

Table class_losses() {
    const Input weight{"C", f32, 0, true};
    return {
        {"nn::cross_entropy",
         "",
         {{"NCH"}, {"NH", i64, 4}, weight},
         {-100},
         {0.1},
         {},
         [](A a) -> R {
             return {nn::cross_entropy(
                 a.tensors[0], a.tensors[1],
                 {.weight = a.tensors[2], .ignore_index = a.integers[0], .label_smoothing = a.reals[0]})};
         },
         classes({{"t1 index", "index/range"},
                  {"r0 = nan", "value/option"},
                  {"r0 = inf", "value/option"},
                  {"r0 = -", "value/option"},
                  {"empty C", "index/range"}})},
        {"nn::cross_entropy",
         "probabilities",
         {{"NCH"}, {"NCH"}, weight},
         {},
         {},
         {},
         [](A a) -> R { return {nn::cross_entropy(a.tensors[0], a.tensors[1], {.weight = a.tensors[2]})}; },
         classes({})},
        {"nn::cross_entropy",
         "single",
         {{"NC"}, {"N", i64, 4}, weight},
         {},
         {},
         {},
         [](A a) -> R {
             return {nn::cross_entropy(a.tensors[0], a.tensors[1],
                                       {.weight = a.tensors[2], .reduction = nn::Reduction::none})};
         }},
        {"nn::nll",
         "",
         {{"NCH"}, {"NH", i64, 4}, weight},
         {-100},
         {},
         {},
         [](A a) -> R {
             return {nn::nll(a.tensors[0], a.tensors[1], {.weight = a.tensors[2], .ignore_index = a.integers[0]})};
         },
         classes({{"t1 index", "index/range"}, {"t1 dtype f", "dtype/unsupported"}})},
    };
}

Table losses() {
    Table rows = class_losses();
    const std::pair<nn::Reduction, const char*> reductions[] = {{nn::Reduction::mean, ""},
                                                                {nn::Reduction::sum, "sum"},
                                                                {nn::Reduction::none, "none"},
                                                                {nn::Reduction::batch_mean, "batch_mean"}};
    for (const auto& [reduction, name] : reductions) {
        const nn::LossOptions o{.reduction = reduction};
        rows.push_back({"nn::mse",
                        name,
                        {{"NCH"}, {"NCH"}},
                        {},
                        {},
                        {},
                        [o](A a) -> R { return {nn::mse(a.tensors[0], a.tensors[1], o)}; },
                        compared});
    }
    rows.push_back({"nn::l1",
                    "",
                    {{"NCH"}, {"NCH"}},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {nn::l1(a.tensors[0], a.tensors[1])}; },
                    compared});
    rows.push_back(
        {"nn::smooth_l1",
         "",
         {{"NCH"}, {"NCH"}},
         {},
         {0.5},
         {},
         [](A a) -> R { return {nn::smooth_l1(a.tensors[0], a.tensors[1], {.beta = a.reals[0]})}; },
         compared_and({{"r0 = nan", "value/option"}, {"r0 = inf", "value/option"}, {"r0 = -", "value/option"}})});
    rows.push_back({"nn::huber",
                    "",
                    {{"NCH"}, {"NCH"}},
                    {},
                    {0.5},
                    {},
                    [](A a) -> R { return {nn::huber(a.tensors[0], a.tensors[1], {.delta = a.reals[0]})}; },
                    compared_and({{"r0 = nan", "value/option"},
                                  {"r0 = inf", "value/option"},
                                  {"r0 = -", "value/option"},
                                  {"r0 = 0", "value/option"}})});
    const Input factor{"C1", f32, 0, true};
    rows.push_back({"nn::bce",
                    "",
                    {{"NCH"}, {"NCH"}, factor},
                    {},
                    {},
                    {},
                    [](A a) -> R { return {nn::bce(a.tensors[0], a.tensors[1], {.weight = a.tensors[2]})}; },
                    compared_and({{"t2 axis 0 longer", "shape/broadcast"}})});
    rows.push_back({"nn::bce_with_logits",
                    "",
                    {{"NCH"}, {"NCH"}, factor, {"H", f32, 0, true}},
                    {},
                    {},
                    {},
                    [](A a) -> R {
                        return {nn::bce_with_logits(a.tensors[0], a.tensors[1],
                                                    {.weight = a.tensors[2], .pos_weight = a.tensors[3]})};
                    },
                    compared_and({{"t2 axis 0 longer", "shape/broadcast"}, {"t3 axis 0 longer", "shape/broadcast"}})});
    for (const bool log_target : {false, true}) {
        rows.push_back(
            {"nn::kl_div",
             log_target ? "log_target" : "",
             {{"NCH"}, {"NCH"}},
             {},
             {},
             {},
             [log_target](A a) -> R { return {nn::kl_div(a.tensors[0], a.tensors[1], {.log_target = log_target})}; },
             compared});
    }
    return rows;
}

Table initialisers() {
    const std::vector<Must> fans = {{"l0 empty", "shape/rank"},
                                    {"l0[0] = -", "shape/negative"},
                                    {"l0[1] = min", "shape/negative"},
                                    {"l0[0] = max", "shape/overflow"},
                                    {"l0[2] = -1", "shape/negative"}};
    const std::vector<Dims> shape = {{4, 3, 2}};
    using namespace nn::init;
    return {
        {"nn::init::constant",
         "",
         {},
         {},
         {0.5},
         shape,
         [](A a) -> R { return {constant(a.lists[0], a.reals[0])}; },
         {{"l0[0] = -", "shape/negative"}, {"l0[0] = max", "shape/overflow"}}},
        {"nn::init::kaiming_uniform",
         "",
         {},
         {},
         {0.1},
         shape,
         [](A a) -> R { return {kaiming_uniform(a.lists[0], {.slope = a.reals[0]})}; },
         fans},
        {"nn::init::kaiming_normal",
         "",
         {},
         {},
         {0.1},
         shape,
         [](A a) -> R { return {kaiming_normal(a.lists[0], {.slope = a.reals[0], .fan = Fan::out})}; },
         fans},
        {"nn::init::xavier_uniform",
         "",
         {},
         {},
         {1},
         shape,
         [](A a) -> R { return {xavier_uniform(a.lists[0], {.gain = a.reals[0]})}; },
         fans},
        {"nn::init::xavier_normal",
         "",
         {},
         {},
         {1},
         shape,
         [](A a) -> R { return {xavier_normal(a.lists[0], {.gain = a.reals[0]})}; },
         fans},
        {"nn::init::orthogonal",
         "",
         {},
         {},
         {1},
         shape,
         [](A a) -> R { return {orthogonal(a.lists[0], {.gain = a.reals[0]})}; },
         fans},
    };
}

Table plain_layers() {
    const std::vector<Must> undefined = {{"t0 undefined", "tensor/undefined"}};
    Table rows;
    const auto add = [&](const char* name, std::function<Tensor(A)> call, std::vector<double> reals = {},
                         std::vector<std::int64_t> integers = {}, std::vector<std::string> operations = {}) {
        rows.push_back({name,
                        "",
                        {{"NCH"}},
                        std::move(integers),
                        std::move(reals),
                        {},
                        [call = std::move(call)](A a) -> R { return {call(a)}; },
                        undefined,
                        std::move(operations)});
    };
    add("nn::Activation", [](A a) { return nn::Relu{}(a.tensors[0]); }, {}, {}, {"relu"});
    add("nn::LeakyRelu", [](A a) { return nn::LeakyRelu{a.reals[0]}(a.tensors[0]); }, {0.1}, {}, {"leaky_relu"});
    add("nn::Elu", [](A a) { return nn::Elu{a.reals[0]}(a.tensors[0]); }, {1}, {}, {"elu"});
    add("nn::Gelu", [](A a) { return nn::Gelu{}(a.tensors[0]); }, {}, {}, {"gelu"});
    add("nn::Softmax", [](A a) { return nn::Softmax{a.integers[0]}(a.tensors[0]); }, {}, {1}, {"softmax"});
    add("nn::LogSoftmax", [](A a) { return nn::LogSoftmax{a.integers[0]}(a.tensors[0]); }, {}, {1}, {"log_softmax"});
    add("nn::Flatten",
        [](A a) {
            return nn::Flatten{a.integers[0], a.integers[1]}(a.tensors[0]);
        },
        {}, {1, -1}, {"flatten"});
    add("nn::Sequential",
        [](A a) {
            return nn::Sequential{nn::Relu{}, nn::Flatten{}}(a.tensors[0]);
        },
        {}, {}, {"relu", "flatten"});
    add("nn::dropout", [](A a) { return nn::dropout(a.tensors[0], {.p = a.reals[0]}); }, {0.5});
    add("nn::Dropout", [](A a) { return nn::Dropout{{.p = a.reals[0], .channels = true}}(a.tensors[0]); }, {0.5}, {},
        {"dropout"});
    for (std::size_t last = rows.size() - 2; last < rows.size(); ++last) {
        for (const char* value : {"r0 = nan", "r0 = inf", "r0 = -"}) rows[last].must.push_back({value, "value/option"});
        rows[last].must.push_back({"t0 dtype i", "dtype/unsupported"});
    }
    rows.push_back(
        {"nn::Identity", "", {{"NCH"}}, {}, {}, {}, [](A a) -> R { return {nn::Identity{}(a.tensors[0])}; }});
    return rows;
}

/// The layer's sizes refuse numbers below 1.
std::vector<Must> sizes(int count, std::vector<Must> more) {
    for (int i = 0; i < count; ++i) {
        for (const char* value : {" = 0", " = -", " = min"})
            more.push_back({"i" + std::to_string(i) + value, "value/option"});
    }
    more.push_back({"t0 undefined", "tensor/undefined"});
    return more;
}

Table layers() {
    const std::vector<std::string> conv_names = {"conv"}, transpose_names = {"conv_transpose"};
    const std::vector<Must> norm_options = {
        {"r0 = nan", "value/option"}, {"r0 = inf", "value/option"}, {"r0 = -", "value/option"}};
    return {
        {"nn::Linear",
         "",
         {{"NC"}},
         {4, 3},
         {},
         {},
         [](A a) -> R { return {nn::Linear{{.in = a.integers[0], .out = a.integers[1]}}(a.tensors[0])}; },
         sizes(2, {{"t0 axis 1 longer", "matmul/inner"}}),
         {"linear"}},
        {"nn::Embedding",
         "",
         {{"NK", i64, 4}},
         {4, 3, 1},
         {},
         {},
         [](A a) -> R {
             return {nn::Embedding{{.count = a.integers[0], .width = a.integers[1], .padding = a.integers[2]}}(
                 a.tensors[0])};
         },
         {{"i0 = 0", "value/option"},
          {"i1 = -", "value/option"},
          {"i2 = 2", "value/option"},
          {"i2 = m", "value/option"},
          {"t0 index", "index/range"}},
         {"embedding"}},
        {"nn::Conv",
         "",
         {{"NCHW"}},
         {4, 6, 2, 0},
         {},
         {{3, 2}, {1, 1}, {1, 0}, {1, 1}},
         [](A a) -> R {
             return {nn::Conv{{.in = a.integers[0],
                               .out = a.integers[1],
                               .kernel = a.lists[0],
                               .stride = a.lists[1],
                               .padding = a.lists[2],
                               .dilation = a.lists[3],
                               .groups = a.integers[2],
                               .axes = a.integers[3]}}(a.tensors[0])};
         },
         {{"i0 = 0", "value/option"},
          {"i1 = -", "value/option"},
          {"i2 = 0", "value/option"},
          {"l0[0] = 0", "value/option"},
          {"l1[0] = -", "value/option"},
          {"l2[0] = -", "value/option"},
          {"l3[1] = m", "value/option"},
          {"l1 longer", "value/count"}},
         conv_names},
        {"nn::Conv",
         "axes",
         {{"NCHW"}},
         {3, 2},
         {},
         {},
         [](A a) -> R {
             return {nn::Conv{{.in = 4, .out = 6, .kernel = a.integers[0], .axes = a.integers[1]}}(a.tensors[0])};
         },
         {{"i0 = 0", "value/option"}, {"i0 = -", "value/option"}, {"i1 = -", "value/option"}},
         conv_names},
        {"nn::ConvTranspose",
         "",
         {{"NCHW"}},
         {4, 6, 2, 0},
         {},
         {{3, 2}, {2, 2}, {1, 0}, {1, 0}, {1, 1}},
         [](A a) -> R {
             return {nn::ConvTranspose{{.in = a.integers[0],
                                        .out = a.integers[1],
                                        .kernel = a.lists[0],
                                        .stride = a.lists[1],
                                        .padding = a.lists[2],
                                        .output_padding = a.lists[3],
                                        .dilation = a.lists[4],
                                        .groups = a.integers[2],
                                        .axes = a.integers[3]}}(a.tensors[0])};
         },
         {{"i0 = 0", "value/option"}, {"i1 = -", "value/option"}, {"l3[0] = -", "value/option"}},
         transpose_names},
        {"nn::MaxPool",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}, {2, 1}, {1, 0}, {1, 2}},
         [](A a) -> R {
             return {nn::MaxPool{
                 {.kernel = a.lists[0], .stride = a.lists[1], .padding = a.lists[2], .dilation = a.lists[3]}}(
                 a.tensors[0])};
         },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}, {"l3[0] = min", "value/option"}},
         {"max_pool"}},
        {"nn::AvgPool",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}, {2, 1}, {1, 0}, {1, 2}},
         [](A a) -> R {
             return {nn::AvgPool{
                 {.kernel = a.lists[0], .stride = a.lists[1], .padding = a.lists[2], .dilation = a.lists[3]}}(
                 a.tensors[0])};
         },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}, {"l3[0] = min", "value/option"}},
         {"avg_pool"}},
        {"nn::AdaptiveMaxPool",
         "",
         {{"NCHW"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {nn::AdaptiveMaxPool{{.size = a.lists[0]}}(a.tensors[0])}; },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}, {"t0 undefined", "tensor/undefined"}},
         {"adaptive_max_pool"}},
        {"nn::LpPool",
         "",
         {{"NCHW"}},
         {},
         {2},
         {{3, 2}},
         [](A a) -> R { return {nn::LpPool{{.p = a.reals[0], .kernel = a.lists[0]}}(a.tensors[0])}; },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}, {"r0 = nan", "value/option"}},
         {"lp_pool"}},
        {"nn::PixelShuffle",
         "",
         {{"N6HW"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {nn::PixelShuffle{{.factors = a.lists[0]}}(a.tensors[0])}; },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}},
         {"pixel_shuffle"}},
        {"nn::PixelUnshuffle",
         "",
         {{"NCHP"}},
         {},
         {},
         {{3, 2}},
         [](A a) -> R { return {nn::PixelUnshuffle{{.factors = a.lists[0]}}(a.tensors[0])}; },
         {{"l0[0] = 0", "value/option"}, {"l0 empty", "value/count"}},
         {"pixel_unshuffle"}},
        {"nn::BatchNorm",
         "",
         {{"NCH"}},
         {4},
         {1e-5, 0.1},
         {},
         [](A a) -> R {
             const nn::BatchNorm layer{{.channels = a.integers[0], .epsilon = a.reals[0], .momentum = a.reals[1]}};
             const Tensor y = layer(a.tensors[0]);
             return {y, layer.running_mean.value(), layer.running_var.value()};
         },
         {{"i0 = 0", "value/option"},
          {"i0 = -", "value/option"},
          {"r0 = nan", "value/option"},
          {"r1 = nan", "value/option"},
          {"r1 = -1", "value/option"},
          {"t0 rank 1", "shape/rank"},
          {"t0 axis 1 longer", "shape/mismatch"}},
         {"batch_norm"}},
        {"nn::BatchNorm",
         "evaluation",
         {{"NCH"}},
         {4},
         {1e-5},
         {},
         [](A a) -> R {
             nn::BatchNorm layer{{.channels = a.integers[0], .epsilon = a.reals[0]}};
             nn::eval(layer);
             return {layer(a.tensors[0])};
         },
         norm_options,
         {"batch_norm_inference"}},
        {"nn::LayerNorm",
         "",
         {{"NCH"}},
         {},
         {1e-5},
         {{4, 6}},
         [](A a) -> R { return {nn::LayerNorm{{.shape = a.lists[0], .epsilon = a.reals[0]}}(a.tensors[0])}; },
         {{"r0 = nan", "value/option"},
          {"l0 empty", "value/option"},
          {"l0[0] = 0", "value/option"},
          {"l0[0] = -", "value/option"},
          {"l0 longer", "shape/mismatch"}},
         {"layer_norm"}},
        {"nn::GroupNorm",
         "",
         {{"NCH"}},
         {2, 4},
         {1e-5},
         {},
         [](A a) -> R {
             return {nn::GroupNorm{{.groups = a.integers[0], .channels = a.integers[1], .epsilon = a.reals[0]}}(
                 a.tensors[0])};
         },
         {{"r0 = nan", "value/option"},
          {"i0 = 0", "value/option"},
          {"i1 = -", "value/option"},
          {"t0 rank 1", "shape/rank"}},
         {"group_norm"}},
    };
}

}  // namespace

Table loss_rows() { return losses(); }
Table layer_rows() {
    Table rows = plain_layers();
    for (Row& row : layers()) rows.push_back(std::move(row));
    for (Row& row : initialisers()) rows.push_back(std::move(row));
    // Errors of these are about what follows from their options, or name a default.
    for (Row& row : rows) {
        for (const char* name : {"nn::Conv", "nn::ConvTranspose", "nn::Flatten", "nn::LayerNorm",
                                 "nn::init::xavier_normal", "nn::init::xavier_uniform"}) {
            if (row.name == name) row.shows = false;
        }
    }
    return rows;
}

}  // namespace calor::testing::sweep
