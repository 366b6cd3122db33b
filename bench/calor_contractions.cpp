#include "calor_contractions.h"

#include <numeric>

#include "calor/calor.h"

namespace ca = calor;

namespace bench {
namespace {

ca::Dims dims(const Sizes& sizes) { return ca::Dims(std::span<const std::int64_t>(sizes)); }

/// Random values; channels-last in memory if asked for.
ca::Tensor filled(const Sizes& sizes, bool channels_last) {
    const auto rank = static_cast<std::int64_t>(sizes.size());
    ca::Axes there{0}, back(rank, 0);
    for (std::int64_t a = 2; a < rank; ++a) there.push_back(a);
    there.push_back(1);
    for (std::int64_t a = 0; a < rank; ++a) back[there[a]] = a;
    const ca::Tensor values = ca::normal(dims(sizes));
    ca::Tensor t = channels_last ? ca::permute(ca::contiguous(ca::permute(values, there)), back) : values;
    t.eval();
    return t;
}

ca::Tensor matrix(Sizes sizes, bool transposed) {
    if (transposed) std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    ca::Tensor t = ca::normal(dims(sizes));
    t.eval();
    return transposed ? ca::transpose(t, -1, -2) : t;
}

}  // namespace

std::function<void()> calor_conv(const Sizes& x, const Sizes& w, const Sizes& y, const Sizes& stride, const Sizes& pad,
                                 const Sizes& dilation, std::int64_t groups, const std::string& role,
                                 bool channels_last) {
    const ca::ConvOptions options{
        .stride = dims(stride), .padding = ca::PerAxis(dims(pad)), .dilation = dims(dilation), .groups = groups};
    const Sizes spatial(x.begin() + 2, x.end()), kernel(w.begin() + 2, w.end());
    const ca::Tensor tx = filled(x, channels_last), tw = filled(w, false), ty = filled(y, channels_last);
    if (role == "forward") return [=] { ca::conv(tx, tw, options).eval(); };
    if (role == "input_grad") return [=] { ca::conv_input_grad(ty, tw, dims(spatial), options).eval(); };
    return [=] { ca::conv_weight_grad(tx, ty, dims(kernel), options).eval(); };
}

std::function<void()> calor_matmul(const Sizes& a, const Sizes& b, bool a_transposed, bool b_transposed) {
    const ca::Tensor ta = matrix(a, a_transposed), tb = matrix(b, b_transposed);
    return [=] { ca::matmul(ta, tb).eval(); };
}

}  // namespace bench
