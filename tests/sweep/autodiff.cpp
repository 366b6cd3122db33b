// autodiff.h and the clipping of optim.h.
#include "sweep.h"

namespace calor::testing::sweep {

Table autodiff_rows() {
    using A = const Arguments&;
    using R = std::vector<Tensor>;
    const TensorsFunction squares = [](const R& x) -> R { return {square(x[0]) * 2.0}; };
    const std::vector<Must> undefined = {{"t0 undefined", "tensor/undefined"}, {"t1 undefined", "tensor/undefined"}};
    return {
        {"gradients",
         "",
         {{"NC"}, {"NC"}},
         {},
         {},
         {},
         [](A a) -> R {
             const Tensor x = a.tensors[0].requires_grad();
             return gradients({square(x)}, {x}, {a.tensors[1]});
         },
         {{"t1 axis 0 longer", "shape/mismatch"}, {"t1 rank 0", "shape/mismatch"}},
         {"requires_grad"}},
        {"vjp",
         "",
         {{"NC"}, {"NC"}},
         {},
         {},
         {},
         [squares](A a) -> R { return vjp(squares, {a.tensors[0]}).pullback({a.tensors[1]}); },
         {{"t1 axis 0 longer", "shape/mismatch"}}},
        {"jvp",
         "",
         {{"NC"}, {"NC"}},
         {},
         {},
         {},
         [squares](A a) -> R { return jvp(squares, {a.tensors[0]}, {a.tensors[1]}).tangents; },
         {{"t1 axis 0 longer", "shape/mismatch"}}},
        {"value_and_grad",
         "",
         {{"NC"}},
         {},
         {},
         {},
         [](A a) -> R { return value_and_grad([](const R& x) { return sum(square(x[0])); }, {a.tensors[0]}).second; },
         {{"t0 undefined", "tensor/undefined"}}},
        {"custom",
         "",
         {{"NC"}, {"NC"}},
         {},
         {},
         {},
         [squares](A a) -> R {
             const R seeds{a.tensors[1]};
             return custom({a.tensors[0]}, squares, [seeds](const CustomContext&) { return seeds; });
         },
         {{"t0 undefined", "tensor/undefined"}},
         {"square"}},
        {"checkpoint",
         "",
         {{"NC"}},
         {},
         {},
         {},
         [squares](A a) -> R { return checkpoint(squares, {a.tensors[0]}); },
         {{"t0 undefined", "tensor/undefined"}},
         {"square"}},
        {"optim::clip_grad_norm",
         "",
         {{"NC"}},
         {},
         {0.5},
         {},
         [](A a) -> R {
             const Tensor x = full({3}, 2.0).requires_grad();
             Gradients all = backward(sum(square(x)));
             const Tensor norm = optim::clip_grad_norm(all, a.reals[0]);
             return {norm, all[x]};
         },
         {{"r0 = nan", "value/option"}, {"r0 = 0", "value/option"}, {"r0 = -", "value/option"}}},
    };
}

}  // namespace calor::testing::sweep
