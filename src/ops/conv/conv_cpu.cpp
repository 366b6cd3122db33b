// Convolution on the CPU in f32, bf16 and f16: our own kernels for groups of few channels, for 3 x 3 kernels
// (Winograd) and for channels-last activations of any rank where they are expected to be faster, else oneDNN (1 to 3
// spatial axes). Results are channels-last, which the latter two like best. Large problems run in pieces; the pieces of
// a weight gradient are added in f32.
#include <algorithm>
#include <stdexcept>

#include "calor/precision.h"
#include "device/cpu/direct_conv.h"
#include "device/cpu/lanes_conv.h"
#include "device/cpu/onednn.h"
#include "device/cpu/pack.h"
#include "device/cpu/parallel.h"
#include "device/cpu/planar_conv.h"
#include "device/cpu/scratch.h"
#include "device/cpu/vectorize.h"
#include "device/cpu/winograd_conv.h"
#include "ops/conv/conv_problem.h"

namespace calor::ops::conv {
namespace {

bool takes(const graph::Call& call) {
    const DType dtype = call.outputs[0].dtype;
    return dtype == f32 || is_half(dtype);
}
constexpr const char* elsewhere = "others are expected to be faster";
constexpr const char* other_dtypes = "dtypes other than f32, bf16 and f16";

bool in_one_piece(const Problem& p) { return numel(p.x.shape) + numel(p.y.shape) <= piece_elements; }

/// The first reason why a piece cannot run; the pieces of a weight gradient give f32.
template <class WhyNot> const char* refusal(Role role, const graph::Call& call, const WhyNot& why_not) {
    if (!takes(call)) return other_dtypes;
    Problem whole = simplified(problem_of(role, call));
    if (role == Role::weight_grad && !in_one_piece(whole)) {
        whole.w.dtype = f32;
        if (whole.bias) whole.bias->dtype = f32;
    }
    const char* reason = nullptr;
    for_pieces(whole, piece_elements, [&](const Problem& p) {
        if (reason == nullptr) reason = why_not(p);
    });
    return reason;
}

/// f32 memory for a weight gradient and its bias gradient, dense.
struct Sums {
    Sums(const Problem& p)
        : count(numel(p.w.shape)),
          memory((count + (p.bias ? p.bias->size(0) : 0)) * size_of(f32)),
          size(count + (p.bias ? p.bias->size(0) : 0)),
          strides(contiguous_strides(p.w.shape)) {}
    float* data() const { return memory.floats(); }
    /// Results go here.
    void attach(Problem& p) const {
        p.w.data = data();
        p.w.dtype = f32;
        p.w.strides = strides;
        if (!p.bias) return;
        p.bias->data = data() + count;
        p.bias->dtype = f32;
        p.bias->strides = Strides{1};
    }
    void add(const Sums& more) const {
        cpu::parallel_for(size, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
            float* const to = data();
            const float* const from = more.data();
            CALOR_VECTORIZE
            for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
        });
    }
    std::int64_t count;
    cpu::Scratch memory;
    std::int64_t size;
    Strides strides;
};

/// Runs every piece; run(piece) writes its result.
template <class Run> void run_pieces(Role role, const graph::Call& call, const Run& run) {
    const Problem whole = simplified(problem_of(role, call));
    if (role != Role::weight_grad || in_one_piece(whole)) return for_pieces(whole, piece_elements, run);
    const Sums total(whole), part(whole);
    bool first = true;
    for_pieces(whole, piece_elements, [&](const Problem& p) {
        Problem piece = p;
        (first ? total : part).attach(piece);
        run(piece);
        if (!first) total.add(part);
        first = false;
    });
    cpu::unpack(total.data(), total.strides, whole.w.view());
    if (whole.bias) cpu::unpack(total.data() + total.count, Strides{1}, whole.bias->view());
}

/// The view of an optional array, and its address.
struct MaybeView {
    explicit MaybeView(const std::optional<Array>& a) {
        if (a) view = a->view();
    }
    const View* get() const { return view ? &*view : nullptr; }
    std::optional<View> view;
};

/// Phases of an input gradient, each a pass of its own.
std::int64_t phase_count(const Problem& p) {
    std::int64_t count = 1;
    for (std::int64_t a = 0; a < p.axes() && count < 1 << 16; ++a)
        count *= std::min(p.settings.stride[a], p.x.size(a + 2));
    return count;
}

/// Kernel = stride and no padding: every entry belongs to one window (patch embedding, and its transpose).
bool is_tiled(const Problem& p) {
    const cpu::ConvSettings& s = p.settings;
    bool tiled = s.groups == 1;
    for (std::int64_t a = 0; a < p.axes(); ++a)
        tiled =
            tiled && p.w.size(a + 2) == s.stride[a] && s.dilation[a] == 1 && s.pad_low[a] == 0 && s.pad_high[a] <= 0;
    return tiled && numel(p.w.shape) > p.w.size(0) * p.w.size(1);
}

const char* direct_refusal(const Problem& p) {
    if (p.role == Role::input_grad && phase_count(p) > 1024) return "strides so large that most phases have no tap";
    const MaybeView bias(p.bias);
    return cpu::direct::why_not(p.role, p.x.view(), p.w.view(), bias.get(), p.y.view(), p.settings);
}

/// A product of matrices, in whatever format the data lies.
bool is_pointwise(const Attributes& a) {
    const auto all = [](const Dims& dims, std::int64_t value) {
        return std::all_of(dims.begin(), dims.end(), [=](std::int64_t d) { return d == value; });
    };
    const Window& w = a.window;
    return a.groups == 1 && all(w.kernel, 1) && all(w.stride, 1) && all(w.pad_low, 0) && all(w.pad_high, 0);
}

}  // namespace

const char* direct_why_not(Role role, const graph::Call& call) { return refusal(role, call, direct_refusal); }

const char* direct_first_why_not(Role role, const graph::Call& call) {
    return refusal(role, call, [](const Problem& p) {
        if (const char* reason = direct_refusal(p)) return reason;
        const bool whole_vectors = p.w.size(0) % 8 == 0 && p.w.size(1) % 8 == 0;
        const bool preferred = (is_tiled(p) && whole_vectors) ||
                               cpu::direct::is_preferred(p.role, p.x.view(), p.w.view(), p.y.view(), p.settings);
        return preferred ? nullptr : "oneDNN is expected to be faster";
    });
}

void run_direct(Role role, const graph::Call& call) {
    run_pieces(role, call, [](const Problem& p) {
        const View x = p.x.view(), w = p.w.view(), y = p.y.view();
        const MaybeView bias(p.bias);
        if (p.role == Role::forward) cpu::direct::forward(x, w, bias.get(), y, p.settings);
        if (p.role == Role::input_grad) cpu::direct::input_grad(y, w, x, p.settings, bias.get());
        if (p.role == Role::weight_grad) cpu::direct::weight_grad(x, y, w, bias.get(), p.settings);
    });
}

const char* gemm_first_why_not(Role role, const graph::Call& call) {
    if (role != Role::weight_grad) return elsewhere;
    return refusal(role, call, [](const Problem& p) { return is_tiled(p) ? nullptr : elsewhere; });
}

namespace {

/// Why the kernels along channels don't run this, so that planes are asked; null when they do.
const char* lanes_why_not(const Problem& p) {
    const View x = p.x.view(), w = p.w.view(), y = p.y.view();
    const MaybeView bias(p.bias);
    if (!cpu::lanes::is_preferred(p.role, x, w, y, p.settings)) return elsewhere;  // which costs less to ask
    return cpu::lanes::why_not(p.role, x, w, bias.get(), y, p.settings);
}

}  // namespace

const char* planar_why_not(Role role, const graph::Call& call) {
    return refusal(role, call, [](const Problem& p) {
        if (p.role == Role::input_grad && p.bias) return "a bias on the input gradient";
        if (lanes_why_not(p) == nullptr) return static_cast<const char*>(nullptr);
        const View x = p.x.view(), w = p.w.view(), y = p.y.view();
        const MaybeView bias(p.bias);
        if (!cpu::planar::is_preferred(p.role, x, w, y, p.settings)) return elsewhere;
        return cpu::planar::why_not(p.role, x, w, bias.get(), y, p.settings);
    });
}

void run_planar(Role role, const graph::Call& call) {
    run_pieces(role, call, [](const Problem& p) {
        const View x = p.x.view(), w = p.w.view(), y = p.y.view();
        const MaybeView bias(p.bias);
        const bool lanes = lanes_why_not(p) == nullptr;
        if (p.role == Role::forward)
            (lanes ? cpu::lanes::forward : cpu::planar::forward)(x, w, bias.get(), y, p.settings);
        if (p.role == Role::input_grad) (lanes ? cpu::lanes::input_grad : cpu::planar::input_grad)(y, w, x, p.settings);
        if (p.role == Role::weight_grad)
            (lanes ? cpu::lanes::weight_grad : cpu::planar::weight_grad)(x, y, w, bias.get(), p.settings);
    });
}

const char* winograd_why_not(Role role, const graph::Call& call) {
    if (!winograd()) return "switched off by set_winograd(false)";
    return refusal(role, call, [](const Problem& p) {
        const View x = p.x.view(), w = p.w.view(), y = p.y.view();
        const MaybeView bias(p.bias);
        if (!cpu::winograd::is_preferred(p.role, x, w, y, p.settings)) return elsewhere;
        return cpu::winograd::why_not(p.role, x, w, bias.get(), y, p.settings);
    });
}

void run_winograd(Role role, const graph::Call& call) {
    run_pieces(role, call, [](const Problem& p) {
        const View x = p.x.view(), w = p.w.view(), y = p.y.view();
        const MaybeView bias(p.bias);
        if (p.role == Role::forward) cpu::winograd::forward(x, w, bias.get(), y, p.settings);
        if (p.role == Role::input_grad) cpu::winograd::input_grad(y, w, x, p.settings, bias.get());
        if (p.role == Role::weight_grad) cpu::winograd::weight_grad(x, y, w, bias.get(), p.settings);
    });
}

#ifdef CALOR_ONEDNN

namespace dnn = cpu::onednn;

const char* onednn_why_not(Role role, const graph::Call& call) {
    return refusal(role, call, [](const Problem& p) -> const char* {
        if (p.role == Role::input_grad && p.bias) return "a bias on the input gradient";
        const MaybeView bias(p.bias);
        return dnn::conv_why_not(p.role, p.x.view(), p.w.view(), bias.get(), p.y.view(), p.settings);
    });
}

void run_onednn(Role role, const graph::Call& call) {
    try {
        run_pieces(role, call, [](const Problem& p) {
            const View x = p.x.view(), w = p.w.view(), y = p.y.view();
            const MaybeView bias(p.bias);
            if (p.role == Role::forward) dnn::conv_forward(x, w, bias.get(), y, p.settings);
            if (p.role == Role::input_grad) dnn::conv_input_grad(y, w, x, p.settings);
            if (p.role == Role::weight_grad) dnn::conv_weight_grad(x, y, w, bias.get(), p.settings);
        });
    } catch (const std::runtime_error& e) {
        fail("kernel/failed", call.operation, call.where, {{"implementation", "onednn"}, {"what", e.what()}});
    }
}

#else

const char* onednn_why_not(Role, const graph::Call&) { return "built without oneDNN"; }
void run_onednn(Role, const graph::Call&) {}

#endif

graph::Format result_format(Role role, const graph::Call& call) {
    if (call.backend.gpu()) return format_of_input(call);
    const Operands o = operands(role, call);
    if (!takes(call) || o.x.count() == 0 || o.w.count() == 0) return graph::Format::plain;
    const Attributes& attributes = call.attrs<Attributes>();
    const View& source = call.inputs[0];
    if (source.stride(1) != 1 &&
        (is_pointwise(attributes) || cpu::planar::is_preferred_for_planes(role, *o.w.shape, attributes.groups)))
        return graph::Format::plain;
#ifdef CALOR_ONEDNN
    if (o.x.rank() <= 5) {
        const dnn::Layout layout = dnn::preferred_layout(*o.x.shape, *o.w.shape, problem_of(role, call).settings);
        if (layout == dnn::Layout::plain) return graph::Format::plain;
    }
#endif
    return graph::Format::channels_last;
}

}  // namespace calor::ops::conv
