#include "calor_contractions.h"

#include <numeric>

#include "calor/calor.h"
#include "layout.h"

namespace ca = calor;

namespace bench {
namespace {

ca::Dims dims(const Sizes& sizes) { return ca::Dims(std::span<const std::int64_t>(sizes)); }

ca::Tensor filled(const Sizes& sizes, bool channels_last) { return laid_out(ca::normal(dims(sizes)), channels_last); }

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
