// One function an operation, in a table by the name that the case files use. Shapes are N, C, spatial.
#include "case_problems.h"

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "layout.h"

namespace ca = calor;
using nlohmann::json;

namespace bench {
namespace {

ca::Dims dims(const json& list) {
    ca::Dims out;
    for (const json& entry : list) out.push_back(entry.get<std::int64_t>());
    return out;
}

/// A number or a list of numbers, an axis each.
ca::PerAxis per_axis(const json& c, const char* key, std::int64_t otherwise) {
    if (!c.contains(key)) return ca::PerAxis(otherwise);
    return c[key].is_number() ? ca::PerAxis(c[key].get<std::int64_t>()) : ca::PerAxis(dims(c[key]));
}

ca::DType dtype(const json& c) {
    static const std::map<std::string, ca::DType> names{
        {"f64", ca::f64}, {"f32", ca::f32}, {"f16", ca::f16}, {"bf16", ca::bf16}};
    return names.at(c.at("dtype"));
}

/// Evaluated normal values that collect gradients.
ca::Tensor leaf(const ca::Shape& shape, const json& c) { return values_of_case(shape, c).requires_grad(); }

double product(const ca::Dims& sizes, std::int64_t first) {
    double all = 1;
    for (std::int64_t a = first; a < sizes.rank(); ++a) all *= static_cast<double>(sizes[a]);
    return all;
}

Problem conv(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c), w = leaf(dims(c["w"]), c);
    const ca::ConvOptions options{.stride = per_axis(c, "stride", 1),
                                  .padding = per_axis(c, "padding", 0),
                                  .dilation = per_axis(c, "dilation", 1),
                                  .groups = c.value("groups", std::int64_t{1})};
    const auto forward = [=] { return ca::conv(x, w, options); };
    const double outputs = product(forward().shape(), 0);
    return {forward, {{"dgrad", {x}}, {"wgrad", {w}}}, 2 * outputs * product(w.shape(), 1)};
}

Problem conv_transpose(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c), w = leaf(dims(c["w"]), c);
    const ca::ConvTransposeOptions options{.stride = per_axis(c, "stride", 1),
                                           .padding = per_axis(c, "padding", 0),
                                           .dilation = per_axis(c, "dilation", 1),
                                           .groups = c.value("groups", std::int64_t{1})};
    return {[=] { return ca::conv_transpose(x, w, options); },
            {{"dgrad", {x}}, {"wgrad", {w}}},
            2 * product(x.shape(), 0) * product(w.shape(), 1)};
}

Problem max_pool(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const ca::MaxPoolOptions options{
        .kernel = per_axis(c, "kernel", 1), .stride = per_axis(c, "stride", 1), .padding = per_axis(c, "padding", 0)};
    return {[=] { return ca::max_pool(x, options); }, {{"bwd", {x}}}};
}

/// x: what is pooled before; both its axes and the kernel give the sizes that come back.
Problem max_unpool(const json& c) {
    const ca::Tensor whole = leaf(dims(c["x"]), c).detach();
    const ca::MaxPoolResult pooled =
        ca::max_pool_with_indices(whole, {.kernel = per_axis(c, "kernel", 1), .stride = per_axis(c, "stride", 1)});
    ca::eval({pooled.values, pooled.indices});
    const ca::Tensor values = pooled.values.detach().requires_grad(), indices = pooled.indices;
    const ca::Dims sizes(std::span(whole.shape().data() + 2, whole.shape().size() - 2));
    return {[=] { return ca::max_unpool(values, indices, sizes); }, {{"bwd", {values}}}};
}

Problem avg_pool(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const ca::AvgPoolOptions options{
        .kernel = per_axis(c, "kernel", 1), .stride = per_axis(c, "stride", 1), .padding = per_axis(c, "padding", 0)};
    return {[=] { return ca::avg_pool(x, options); }, {{"bwd", {x}}}};
}

Problem interpolate(const json& c) {
    static const std::map<std::string, ca::Interpolation> modes{
        {"nearest", ca::Interpolation::nearest},  {"nearest-exact", ca::Interpolation::nearest_exact},
        {"linear", ca::Interpolation::linear},    {"bilinear", ca::Interpolation::linear},
        {"trilinear", ca::Interpolation::linear}, {"bicubic", ca::Interpolation::cubic},
        {"lanczos", ca::Interpolation::lanczos3}, {"area", ca::Interpolation::area},
    };
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const ca::InterpolateOptions options{.size = dims(c["size"]),
                                         .mode = modes.at(c["mode"]),
                                         .align_corners = c.value("align_corners", false),
                                         .antialias = c.value("antialias", false)};
    return {[=] { return ca::interpolate(x, options); }, {{"bwd", {x}}}};
}

Problem adaptive_avg_pool(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const ca::AdaptiveAvgPoolOptions options{.size = dims(c["size"])};
    return {[=] { return ca::adaptive_avg_pool(x, options); }, {{"bwd", {x}}}};
}

Problem adaptive_max_pool(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const ca::PerAxis size = dims(c["size"]);
    return {[=] { return ca::adaptive_max_pool(x, {.size = size}); }, {{"bwd", {x}}}};
}

Problem grid_sample(const json& c) {
    static const std::map<std::string, ca::GridMode> modes{
        {"nearest", ca::GridMode::nearest}, {"bilinear", ca::GridMode::linear}, {"bicubic", ca::GridMode::cubic}};
    const ca::Tensor x = leaf(dims(c["x"]), c);
    ca::Shape shape{x.size(0)};
    for (const json& size : c["size"]) shape.push_back(size.get<std::int64_t>());
    shape.push_back(x.rank() - 2);
    const ca::Tensor grid = ca::uniform(shape, -1, 1).to(dtype(c)).eval().requires_grad();
    const ca::GridSampleOptions options{.mode = modes.at(c["mode"])};
    return {[=] { return ca::grid_sample(x, grid, options); }, {{"bwd", {x, grid}}}};
}

Problem softmax(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    return {[=] { return ca::softmax(x); }, {{"bwd", {x}}}};
}

/// Ones and zeros that collect gradients: the scale and shift of a normalisation.
std::pair<ca::Tensor, ca::Tensor> affine(std::int64_t channels, const json& c) {
    return {ca::ones({channels}, dtype(c)).eval().requires_grad(),
            ca::zeros({channels}, dtype(c)).eval().requires_grad()};
}

Problem layer_norm(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const auto [w, b] = affine(x.size(-1), c);
    return {[x, w = w, b = b] { return ca::layer_norm(x, 1, w, b); }, {{"bwd", {x, w, b}}}};
}

Problem batch_norm(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const auto [w, b] = affine(x.size(1), c);
    return {[x, w = w, b = b] { return ca::batch_norm(x, w, b).output; }, {{"bwd", {x, w, b}}}};
}

Problem chain(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    return {[=] { return ca::gelu(x * 1.5 + 0.25) * ca::sigmoid(x); }, {{"bwd", {x}}}};
}

Problem reduce(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const std::int64_t axis = c["axis"];
    return {[=] { return ca::sum(x, {axis}); }, {}};
}

Problem embedding_grad(const json& c) {
    const ca::Tensor table = leaf(dims(c["x"]), c);
    const ca::Tensor index = ca::randint(0, table.size(0), dims(c["index"])).eval();
    return {[=] { return ca::embedding(table, index); }, {{"bwd", {table}}}};
}

Problem matmul(const json& c) {
    const ca::Tensor a = leaf(dims(c["x"]), c).detach(), b = leaf(dims(c["b"]), c).detach();
    return {[=] { return ca::matmul(a, b); }, {}, 2 * product(a.shape(), 0) * static_cast<double>(b.size(-1))};
}

Problem sort(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c).detach();
    const std::int64_t axis = c["axis"];
    return {[=] {
                const ca::SortResult sorted = ca::sort(x, axis);
                ca::eval({sorted.values, sorted.indices});
                return sorted.values;
            },
            {}};
}

Problem topk(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c).detach();
    const std::int64_t axis = c["axis"], k = c["k"];
    return {[=] {
                const ca::SortResult top = ca::topk(x, k, axis);
                ca::eval({top.values, top.indices});
                return top.values;
            },
            {}};
}

Problem attention(const json& c) {
    const ca::Shape shape = dims(c["x"]);
    const ca::Tensor q = leaf(shape, c), k = leaf(shape, c), v = leaf(shape, c);
    const bool causal = c.value("causal", false);
    const double flops = 4 * product(shape, 0) * static_cast<double>(shape[2]) / (causal ? 2 : 1);
    return {[=] { return ca::attention(q, k, v, {.causal = causal}); }, {{"bwd", {q, k, v}}}, flops};
}

using Scan = ca::Tensor (*)(const ca::Tensor&, std::int64_t);
Problem scan(const json& c, Scan f) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const std::int64_t axis = c["axis"];
    return {[=] { return f(x, axis); }, {{"bwd", {x}}}};
}
Problem cumsum(const json& c) {
    return scan(c, [](const ca::Tensor& x, std::int64_t axis) { return ca::cumsum(x, axis); });
}
Problem cumprod(const json& c) {
    return scan(c, [](const ca::Tensor& x, std::int64_t axis) { return ca::cumprod(x, axis); });
}
Problem logcumsumexp(const json& c) {
    return scan(c, [](const ca::Tensor& x, std::int64_t axis) { return ca::logcumsumexp(x, axis); });
}
Problem cummax(const json& c) {
    return scan(c, [](const ca::Tensor& x, std::int64_t axis) { return ca::cummax(x, axis).values; });
}

/// x: frames, samples, classes; the loss of logits.
Problem ctc(const json& c) {
    const ca::Tensor x = leaf(dims(c["x"]), c);
    const std::int64_t labels = c["target"];
    const ca::Tensor targets = ca::randint(1, x.size(2), {x.size(1), labels}).eval();
    return {[=] { return ca::ctc_loss(x, targets); }, {{"bwd", {x}}}};
}

const std::map<std::string, Problem (*)(const json&)>& table() {
    static const std::map<std::string, Problem (*)(const json&)> rows{
        {"adaptive_avg_pool", adaptive_avg_pool},
        {"adaptive_max_pool", adaptive_max_pool},
        {"attention", attention},
        {"avg_pool", avg_pool},
        {"batch_norm", batch_norm},
        {"chain", chain},
        {"conv", conv},
        {"conv_transpose", conv_transpose},
        {"ctc", ctc},
        {"cummax", cummax},
        {"cumprod", cumprod},
        {"cumsum", cumsum},
        {"embedding_grad", embedding_grad},
        {"grid_sample", grid_sample},
        {"interpolate", interpolate},
        {"layer_norm", layer_norm},
        {"logcumsumexp", logcumsumexp},
        {"matmul", matmul},
        {"max_pool", max_pool},
        {"max_unpool", max_unpool},
        {"reduce", reduce},
        {"softmax", softmax},
        {"sort", sort},
        {"topk", topk},
    };
    return rows;
}

}  // namespace

ca::Tensor values_of_case(const ca::Shape& shape, const json& c) {
    return laid_out(ca::normal(shape, 0, 1, dtype(c)), c.value("layout", "") == "channels_last");
}

Problem problem(const json& description) {
    const auto row = table().find(description.at("op"));
    if (row == table().end())
        throw std::runtime_error("no such operation here: " + description.at("op").get<std::string>());
    return row->second(description);
}

}  // namespace bench
