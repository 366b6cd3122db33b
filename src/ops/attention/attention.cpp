// Attention made of matrix products and a softmax; gradients of any order follow from theirs. The scores [.., T, S] are
// materialised once.
#include "calor/attention.h"

#include <cmath>

#include "calor/creation.h"
#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/matmul.h"
#include "calor/reduce.h"
#include "calor/softmax.h"
#include "calor/view.h"
#include "ops/support.h"

namespace calor {
namespace {

constexpr std::string_view op = "attention";

void check_operand(const Tensor& t, const char* argument, DType dtype, const Where& where) {
    ops::check_defined(op, t, argument, where);
    if (t.rank() < 2) {
        fail("shape/rank", op, where,
             {{"argument", argument},
              {"got", t.rank()},
              {"expected", "2 or more"},
              {"help", "the last two axes are positions and features; axes before them are batches and heads"}});
    }
    if (!is_floating(t.dtype())) {
        fail("dtype/unsupported", op, where,
             {{"argument", argument}, {"got", t.dtype()}, {"expected", "a floating dtype"}});
    }
    if (t.dtype() != dtype) {
        fail("dtype/mismatch", op, where,
             {{"argument", argument}, {"got", t.dtype()}, {"other", "q"}, {"expected", dtype}});
    }
}

/// Axis `axis` of `t` has the size that `other` says.
void check_size(const Tensor& t, const char* argument, std::int64_t axis, std::int64_t size, const char* help,
                const Where& where) {
    if (t.size(axis) == size) return;
    Shape expected = t.shape();
    expected[t.rank() + axis] = size;
    fail("shape/mismatch", op, where,
         {{"argument", argument}, {"got", t.shape()}, {"expected", expected}, {"help", help}});
}

/// bool [T, S] or of the mask's shape: what may be attended to; undefined: everything.
Tensor allowed(const AttentionOptions& o, std::int64_t queries, std::int64_t keys, const Where& where) {
    Tensor mask = o.mask.defined() && o.mask.dtype() == boolean ? o.mask : Tensor();
    if (!o.causal) return mask;
    const Tensor past = tril(ones({queries, keys}, boolean, where), keys - queries, where);
    return mask.defined() ? logical_and(mask, past, where) : past;
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 const Where& where) {
    const Naming naming("attention");
    ops::check_defined(op, q, "q", where);
    for (const auto& [t, argument] : {std::pair{&q, "q"}, {&k, "k"}, {&v, "v"}}) {
        check_operand(*t, argument, q.dtype(), where);
    }
    check_size(k, "k", -1, q.size(-1), "queries and keys have as many features", where);
    check_size(v, "v", -2, k.size(-2), "there is one value a key", where);
    if (options.mask.defined() && options.mask.dtype() != boolean && !is_floating(options.mask.dtype())) {
        fail("dtype/unsupported", op, where,
             {{"argument", "the mask"}, {"got", options.mask.dtype()}, {"expected", "bool or a floating dtype"}});
    }
    const double scale =
        options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.size(-1), 1))));
    if (!std::isfinite(scale)) {
        fail("value/option", op, where,
             {{"option", "scale"},
              {"got", scale},
              {"expected", "a finite number"},
              {"help", "1 / sqrt(E) unless given"}});
    }
    const DType dtype = q.dtype(), wide = compute_type(dtype);
    const auto widened = [&](const Tensor& t) { return t.dtype() == wide ? t : t.to(wide, where); };
    // Scaling q costs T E multiplications, scaling the scores T S.
    Tensor scores = matmul(mul(widened(q), scale, where), transpose(widened(k), -1, -2, where), where);
    if (options.mask.defined() && options.mask.dtype() != boolean) scores = add(scores, widened(options.mask), where);
    const OnDevice scope(q.device());
    const Tensor attended = allowed(options, q.size(-2), k.size(-2), where);
    if (attended.defined()) scores = calor::where(attended, {scores, where}, {-HUGE_VAL, where}, where);
    Tensor weights = softmax(scores, -1, where);
    const bool every_row = !options.mask.defined() && q.size(-2) <= k.size(-2);  // the first key, for one
    if (attended.defined() && !every_row) {
        weights = calor::where(any(attended, {-1}, true, where), {weights, where}, {0, where}, where);
    }
    const Tensor y = matmul(weights, widened(v), where);
    return y.dtype() == dtype ? y : y.to(dtype, where);
}

}  // namespace calor
