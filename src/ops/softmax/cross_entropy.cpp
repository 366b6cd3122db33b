// softmax_cross_entropy: loss = log(sum exp x) - x[class] along an axis, and its gradient g (softmax(x) - [class]) in
// one pass. The gradient's own rule is made of softmax and elementwise operations:
//   for the cotangent u: dx = p (t - sum(p t)) with p = softmax(x), t = g u;   dg = sum(p u) - u[class]
#include <cmath>
#include <vector>

#include "calor/elementwise.h"
#include "calor/index.h"
#include "calor/reduce.h"
#include "calor/softmax.h"
#include "calor/view.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/registry.h"
#include "ops/softmax/cpu/softmax_kernels.h"
#include "ops/softmax/softmax_gpu.h"
#include "ops/support.h"

namespace calor {
namespace {

using graph::GradContext;

struct ClassAxis {
    std::int64_t axis = 0;
    friend bool operator==(const ClassAxis&, const ClassAxis&) = default;
};

/// The lines along the class axis: offsets in x, in a result of its shape, and in the tensors without the axis.
class Lines {
public:
    explicit Lines(const graph::Call& c) : axis_(c.attrs<ClassAxis>().axis), x_(c.inputs[0]) {
        for (std::int64_t a = 0; a < x_.rank(); ++a) {
            if (a != axis_) others_.push_back(x_.size(a));
        }
    }
    std::int64_t count() const { return numel(others_); }
    /// The offset of a line in a view of the shape of x.
    std::int64_t in_full(const View& v, std::int64_t line) const {
        std::int64_t at = 0;
        for (std::int64_t a = v.rank() - 1; a >= 0; --a) {
            if (a == axis_) continue;
            at += line % v.size(a) * v.stride(a);
            line /= v.size(a);
        }
        return at;
    }
    /// The offset of a line in a view without the axis.
    static std::int64_t in_part(const View& v, std::int64_t line) {
        std::int64_t at = 0;
        for (std::int64_t a = v.rank() - 1; a >= 0; --a) {
            at += line % v.size(a) * v.stride(a);
            line /= v.size(a);
        }
        return at;
    }
    std::int64_t axis() const { return axis_; }

private:
    std::int64_t axis_;
    const View& x_;
    Shape others_;
};

std::int64_t class_of(const graph::Call& c, const Lines& lines, std::int64_t line) {
    const std::int64_t n = c.inputs[0].size(lines.axis()),
                       label = c.inputs[1].as<std::int64_t>()[Lines::in_part(c.inputs[1], line)];
    if (label < 0 || label >= n) {
        fail("index/range", c.operation, c.where,
             {{"index", label}, {"position", line}, {"axis", lines.axis()}, {"size", n}, {"low", 0}, {"high", n - 1}});
    }
    return label;
}

/// One line in the compute dtype: in place when it is dense, else in a buffer.
template <class T> class LineMemory {
public:
    LineMemory(const View& v, std::int64_t axis)
        : view_(v),
          n_(v.size(axis)),
          step_(v.stride(axis)),
          size_(size_of(v.dtype)),
          direct_(v.dtype == dtype_of<T> && (step_ == 1 || n_ == 1)) {
        if (direct_) return;
        packed_.resize(static_cast<std::size_t>(n_ * size_));
        wide_.resize(static_cast<std::size_t>(n_));
    }
    const T* load(std::int64_t offset) {
        if (direct_) return view_.template as<const T>() + offset;
        cpu::gather(packed_.data(), view_.template as<const std::byte>() + offset * size_, step_, size_, n_);
        const void* from = packed_.data();
        cpu::find_convert(view_.dtype, dtype_of<T>)(&from, wide_.data(), n_, nullptr);
        return wide_.data();
    }
    T* place(std::int64_t offset) { return direct_ ? view_.template as<T>() + offset : wide_.data(); }
    void store(std::int64_t offset) {
        if (direct_) return;
        const void* from = wide_.data();
        cpu::find_convert(dtype_of<T>, view_.dtype)(&from, packed_.data(), n_, nullptr);
        cpu::scatter(view_.template as<std::byte>() + offset * size_, step_, packed_.data(), size_, n_);
    }

private:
    View view_;
    std::int64_t n_, step_, size_;
    bool direct_;
    std::vector<std::byte> packed_;
    std::vector<T> wide_;
};

constexpr std::int64_t thread_elements = 8192;

template <class T, class F> void each_line(const Lines& lines, std::int64_t n, const F& body) {
    const std::int64_t grain = std::max<std::int64_t>(1, thread_elements / std::max<std::int64_t>(n, 1));
    cpu::parallel_for(lines.count(), grain, body);
}

template <class T, bool Fast> void forward(const graph::Call& c) {
    const Lines lines(c);
    const View& x = c.inputs[0];
    const std::int64_t n = x.size(lines.axis());
    const auto& kernels = ops::find_cross_entropy_kernels(std::is_same_v<T, double>);
    each_line<T>(lines, n, [&](std::int64_t begin, std::int64_t end) {
        LineMemory<T> memory(x, lines.axis());
        for (std::int64_t line = begin; line < end; ++line) {
            const std::int64_t label = class_of(c, lines, line);
            const T* from = memory.load(lines.in_full(x, line));
            double sum = 0;
            if constexpr (Fast) {
                sum = kernels.logsumexp(from, n);
            } else {
                double top = -HUGE_VAL;
                for (std::int64_t k = 0; k < n; ++k)
                    top = std::isnan(from[k]) || std::isnan(top) ? NAN : std::fmax(top, from[k]);
                for (std::int64_t k = 0; k < n; ++k) sum += std::exp(static_cast<double>(from[k]) - top);
                sum = top + std::log(sum);
            }
            const auto at = [&](std::size_t output) { return Lines::in_part(c.outputs[output], line); };
            c.outputs[0].as<T>()[at(0)] = static_cast<T>(sum - static_cast<double>(from[label]));
            c.outputs[1].as<T>()[at(1)] = static_cast<T>(sum);
        }
    });
}

template <class T, bool Fast> void backward(const graph::Call& c) {
    const Lines lines(c);
    const View &x = c.inputs[0], &sums = c.inputs[2], &g = c.inputs[3], &gx = c.outputs[0];
    const std::int64_t n = x.size(lines.axis());
    const auto& kernels = ops::find_cross_entropy_kernels(std::is_same_v<T, double>);
    each_line<T>(lines, n, [&](std::int64_t begin, std::int64_t end) {
        LineMemory<T> from_memory(x, lines.axis()), to_memory(gx, lines.axis());
        for (std::int64_t line = begin; line < end; ++line) {
            const std::int64_t label = class_of(c, lines, line), target = lines.in_full(gx, line);
            const double sum = sums.as<T>()[Lines::in_part(sums, line)], scale = g.as<T>()[Lines::in_part(g, line)];
            const T* from = from_memory.load(lines.in_full(x, line));
            T* to = to_memory.place(target);
            if constexpr (Fast) {
                kernels.scaled_softmax(from, to, n, sum, scale);
            } else {
                for (std::int64_t k = 0; k < n; ++k)
                    to[k] = static_cast<T>(std::exp(static_cast<double>(from[k]) - sum) * scale);
            }
            to[label] -= static_cast<T>(scale);
            to_memory.store(target);
        }
    });
}

template <bool Fast> void run_forward(const graph::Call& c) {
    if (c.outputs[0].dtype == f64) return forward<double, Fast>(c);
    forward<float, Fast>(c);
}
template <bool Fast> void run_backward(const graph::Call& c) {
    if (c.inputs[2].dtype == f64) return backward<double, Fast>(c);
    backward<float, Fast>(c);
}

const graph::Implementation forward_list[] = {{.name = "lanes", .run = run_forward<true>},
                                              {.name = "reference", .run = run_forward<false>}};
const graph::Implementation backward_list[] = {{.name = "lanes", .run = run_backward<true>},
                                               {.name = "reference", .run = run_backward<false>}};

const graph::Implementation forward_on_gpu[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                     ops::cross_entropy_on_gpu(c, c.attrs<ClassAxis>().axis);
                                                 }}};
const graph::Implementation backward_on_gpu[] = {{.name = "reference", .run = [](const graph::Call& c) {
                                                      ops::cross_entropy_grad_on_gpu(c, c.attrs<ClassAxis>().axis);
                                                  }}};

graph::Specs infer_forward(const graph::InferContext& c) {
    const DType wide = compute_type(c.inputs[0].dtype());
    return {{c.inputs[1].shape(), wide}, {c.inputs[1].shape(), wide}};
}

void gradient_of_grad(const GradContext& c) {
    const std::int64_t axis = c.attrs<ClassAxis>().axis;
    const Where& at = c.where;
    const Tensor &x = c.inputs[0], &classes = c.inputs[1], u = c.cotangent();
    const Tensor p = softmax(x.to(compute_type(x.dtype()), at), axis, at);
    if (c.needs[0]) {
        const Tensor t = mul(unsqueeze(c.inputs[3], axis, at), u, at);
        c.grads[0] = mul(p, sub(t, sum(mul(p, t, at), {axis}, true, at), at), at);
    }
    if (c.needs[3]) {
        const Tensor taken = squeeze(take_along_axis(u, unsqueeze(classes, axis, at), axis, at), {axis}, at);
        c.grads[3] = sub(sum(mul(p, u, at), {axis}, false, at), taken, at);
    }
}

const graph::Operation grad_operation{
    .name = "softmax_cross_entropy_grad",
    .infer =
        [](const graph::InferContext& c) {
            return graph::Specs{{c.inputs[0].shape(), c.inputs[0].dtype()}};
        },
    .gradient = gradient_of_grad,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(backward_list); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(backward_on_gpu); },
    .format = ops::format_of_input};

/// The sums are carried along for the kernel: the rule of the gradient sees them as part of x.
void forward_gradient(const GradContext& c) {
    const Tensor g = c.cotangent().to(c.outputs[1].dtype(), c.where);
    c.grads[0] = graph::record(grad_operation, c.attributes, {c.inputs[0], c.inputs[1], c.outputs[1], g}, c.where);
}

const graph::Operation forward_operation{
    .name = "softmax_cross_entropy",
    .infer = infer_forward,
    .gradient = forward_gradient,
    .implementations = [](DeviceKind) { return std::span<const graph::Implementation>(forward_list); },
    .gpu_implementations = [] { return std::span<const graph::Implementation>(forward_on_gpu); }};

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& classes, std::int64_t axis, const Where& where) {
    constexpr std::string_view name = "softmax_cross_entropy";
    ops::check_defined(name, logits, "the logits", where);
    ops::check_defined(name, classes, "the classes", where);
    const std::int64_t at = ops::normalize_axis(name, axis, logits.rank(), where);
    const std::string operands = "logits " + describe(logits) + ", classes " + describe(classes);
    if (!is_floating(logits.dtype())) {
        fail("dtype/unsupported", name, where,
             {{"argument", "the logits"}, {"got", logits.dtype()}, {"expected", "a floating dtype"}}, operands);
    }
    if (!is_integer(classes.dtype())) {
        fail("dtype/unsupported", name, where,
             {{"argument", "the classes"}, {"got", classes.dtype()}, {"expected", "an integer dtype"}}, operands);
    }
    Shape expected = logits.shape();
    expected.erase(at);
    if (!(classes.shape() == expected)) {
        fail("shape/mismatch", name, where,
             {{"argument", "the classes"},
              {"got", classes.shape()},
              {"expected", expected},
              {"help", "the shape of the logits without the class axis"}},
             operands);
    }
    return graph::record(forward_operation, ClassAxis{at}, {logits, classes.to(i64, where)}, where);
}

ops::Descriptors ops::cross_entropy_descriptors() { return {&forward_operation, &grad_operation}; }

}  // namespace calor
