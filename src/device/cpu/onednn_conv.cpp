// Convolution through oneDNN. The choice of formats is in candidates(): it depends on shapes and strides alone, never
// on a timing, so that a problem runs the same instructions every time.
#include <limits>
#include <string_view>

#include "device/cpu/onednn_cache.h"
#include "device/cpu/pack.h"
#include "device/cpu/scratch.h"

namespace calor::cpu::onednn {
namespace {

using dnnl::memory;

/// An activation's format inside the primitive; `any` leaves it to oneDNN (blocked by channels, as a rule).
enum class Form : std::uint8_t { any, plain, last };

struct Candidate {
    Form x, y;
    bool gemm;  ///< take oneDNN's im2col + GEMM; otherwise only its generated direct kernels
};

struct Problem {
    ConvRole role;
    const View &x, &w, &y;
    const View* bias;
    const ConvSettings& settings;
    bool relu = false;

    std::int64_t spatial() const { return settings.stride.rank(); }
    std::int64_t group_in() const { return (*w.shape)[1]; }
    std::int64_t group_out() const { return (*w.shape)[0] / settings.groups; }
    const View& result() const { return role == ConvRole::forward ? y : role == ConvRole::input_grad ? x : w; }
};

bool is_plain(const Shape& shape, const Strides& strides) {
    std::int64_t step = 1;
    for (std::int64_t i = shape.rank(); i-- > 0;) {
        if (shape[i] != 1 && strides[i] != step) return false;
        step *= shape[i];
    }
    return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
    if (shape[1] != 1 && strides[1] != 1) return false;
    std::int64_t step = shape[1];
    for (std::int64_t i = shape.rank(); i-- > 0;) {
        if (i == 1) continue;
        if (shape[i] != 1 && strides[i] != step) return false;
        step *= shape[i];
    }
    return true;
}

memory::dims dims_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

memory::desc describe(const memory::dims& dims, Form form) {
    if (form == Form::any) return {dims, memory::data_type::f32, memory::format_tag::any};
    memory::dims strides(dims.size(), 1);
    memory::dim step = form == Form::last ? dims[1] : 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
        if (form == Form::last && i == 1) continue;
        strides[i] = step;
        step *= dims[i];
    }
    return {dims, memory::data_type::f32, strides};
}

/// The caller's array; strides of unit axes are replaced by harmless ones.
memory::desc describe(const Shape& shape, const Strides& strides, std::int64_t groups = 1) {
    memory::dims dims = dims_of(shape), steps = dims_of(strides);
    if (groups > 1) {
        dims.insert(dims.begin(), groups);
        dims[1] /= groups;
        steps.insert(steps.begin(), dims[1] * steps[0]);
    }
    memory::dim extent = 1;
    for (std::size_t i = 0; i < dims.size(); ++i)
        if (dims[i] != 1) extent = std::max(extent, dims[i] * steps[i]);
    for (std::size_t i = 0; i < dims.size(); ++i)
        if (dims[i] == 1) steps[i] = extent;
    return {dims, memory::data_type::f32, steps};
}

const char* check_array(const View& view, std::int64_t rank, DType dtype) {
    if (view.shape->rank() != rank || view.strides->rank() != rank) return "ranks differ from 2 + the spatial axes";
    if (view.dtype != dtype) return "operands of different dtypes";
    std::int64_t count = 1;
    for (const std::int64_t d : *view.shape) {
        if (d <= 0) return "an axis of size 0";
        if (d > std::numeric_limits<std::int32_t>::max() / count) return "an operand of 2^31 elements or more";
        count *= d;
    }
    return nullptr;
}

const char* check_axis(const Problem& p, std::int64_t i) {
    const ConvSettings& s = p.settings;
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    if (s.stride[i] < 1 || s.dilation[i] < 1) return "a stride or dilation below 1";
    if (s.pad_low[i] < 0 || s.pad_high[i] < 0) return "negative padding";
    const std::int64_t in = (*p.x.shape)[i + 2], taps = (*p.w.shape)[i + 2];
    if (s.stride[i] > limit || s.pad_low[i] > limit - in || s.pad_high[i] > limit - in) return "sizes beyond 32 bits";
    if (taps > 1 && s.dilation[i] > limit / taps) return "sizes beyond 32 bits";
    const std::int64_t room = in + s.pad_low[i] + s.pad_high[i] - s.dilation[i] * (taps - 1) - 1;
    if (room < 0 || room / s.stride[i] + 1 != (*p.y.shape)[i + 2]) return "an output size that does not follow";
    return nullptr;
}

/// What can be said without asking oneDNN.
const char* check(const Problem& p) {
    const std::int64_t n = p.spatial();
    if (n < 1 || n > 3) return "convolution has 1 to 3 spatial axes here";
    const DType dtype = p.x.dtype;
    if (dtype != f32 && dtype != bf16 && dtype != f16) return "dtypes other than f32, bf16 and f16";
    const ConvSettings& s = p.settings;
    if (s.dilation.rank() != n || s.pad_low.rank() != n || s.pad_high.rank() != n)
        return "settings of the wrong length";
    const bool sums = p.role == ConvRole::weight_grad && p.w.dtype == f32;
    for (const View* view : {&p.x, &p.w, &p.y})
        if (const char* reason = check_array(*view, n + 2, sums && view == &p.w ? f32 : dtype)) return reason;
    const Shape &x = *p.x.shape, &w = *p.w.shape, &y = *p.y.shape;
    if (s.groups < 1 || w[0] % s.groups != 0 || w[1] > x[1] || w[1] * s.groups != x[1]) return "groups do not fit";
    if (x[0] != y[0] || y[1] != w[0]) return "shapes do not fit";
    if (p.bias != nullptr) {
        if (const char* reason = check_array(*p.bias, 1, sums ? f32 : dtype)) return reason;
        if ((*p.bias->shape)[0] != w[0]) return "a bias of the wrong size";
        if (p.role == ConvRole::weight_grad && !is_regular(*p.bias->shape, *p.bias->strides))
            return "an output that overlaps itself";
    }
    for (std::int64_t i = 0; i < n; ++i)
        if (const char* reason = check_axis(p, i)) return reason;
    if (!is_regular(*p.result().shape, *p.result().strides)) return "an output that overlaps itself";
    return nullptr;
}

struct Formats {
    bool x_plain, x_last, y_plain, y_last;
};

constexpr Candidate blocked{Form::any, Form::any, false}, last{Form::last, Form::last, false};
constexpr Candidate gemm{Form::plain, Form::plain, true}, gemm_last{Form::last, Form::last, true};

bool is_pointwise(const Problem& p) {
    for (std::int64_t i = 0; i < p.spatial(); ++i) {
        const ConvSettings& s = p.settings;
        if ((*p.w.shape)[i + 2] != 1 || s.stride[i] != 1 || s.pad_low[i] != 0 || s.pad_high[i] != 0) return false;
    }
    return p.settings.groups == 1;
}

/// The best candidate, as bench/onednn_bare.cpp measured it on AVX2; oneDNN may have no implementation for it.
Candidate favourite(const Problem& p, const Formats& given) {
    const bool both_last = given.x_last && given.y_last, both_plain = given.x_plain && given.y_plain;
    const bool weights = p.role == ConvRole::weight_grad;
    if (p.settings.groups > 1) {
        const bool depthwise = p.group_in() == 1 && p.group_out() == 1;
        const bool back = p.role == ConvRole::input_grad;
        return both_last && (back || (depthwise && !weights)) ? last : blocked;
    }
    if (p.group_in() < 4) {
        // A generated kernel reads plain x and writes blocked or channels-last y; backwards to x it is hopeless.
        if (p.role == ConvRole::input_grad) return gemm;
        if (weights ? p.group_in() == 1 : given.y_last) return last;
        return {Form::plain, Form::any, false};
    }
    if (is_pointwise(p)) return both_plain ? gemm : !both_last ? blocked : weights ? gemm_last : last;
    if (weights) {
        if (p.spatial() == 3) return both_last ? gemm_last : gemm;
        if (p.spatial() == 2) return both_last ? last : both_plain ? gemm : blocked;
        return blocked;
    }
    const bool whole_blocks = p.group_in() % 8 == 0 && p.group_out() % 8 == 0;
    return whole_blocks ? blocked : last;
}

/// What to try, best first.
std::vector<Candidate> candidates(const Problem& p, const Formats& given) {
    return {favourite(p, given),         blocked, last, given.x_last && given.y_last ? gemm_last : gemm, gemm,
            {Form::any, Form::any, true}};
}

bool suits(const Candidate& candidate, std::string_view implementation) {
    if (implementation.starts_with("ref") || implementation.find("sse41") != std::string_view::npos) return false;
    return candidate.gemm == (implementation.find("gemm") != std::string_view::npos);
}

/// Moves `pd` to its first implementation that suits the candidate.
template <class Pd> bool advance(Pd& pd, const Candidate& candidate) {
    do {
        if (suits(candidate, pd.impl_info_str())) return true;
    } while (pd.next_impl());
    return false;
}

struct Descriptors {
    memory::desc x, w, y, bias;                        // the caller's
    memory::dims stride, dilation, pad_low, pad_high;  // dilation 0 is dense here
};

constexpr std::size_t slot_x = 0, slot_w = 1, slot_y = 2, slot_bias = 3;

dnnl::primitive_attr attributes(bool relu) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (relu) {
        dnnl::post_ops post;
        post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
        attr.set_post_ops(post);
    }
    return attr;
}

dnnl::convolution_forward::desc forward_desc(const Descriptors& d, const memory::desc& x, const memory::desc& w,
                                             const memory::desc& y, const memory::desc* bias) {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto direct = dnnl::algorithm::convolution_direct;
    if (bias == nullptr) return {kind, direct, x, w, y, d.stride, d.dilation, d.pad_low, d.pad_high};
    return {kind, direct, x, w, *bias, y, d.stride, d.dilation, d.pad_low, d.pad_high};
}

/// A plan for one candidate; false when oneDNN has no suitable implementation.
bool build_candidate(const Problem& p, const Descriptors& d, const Candidate& candidate, Plan& plan) {
    const memory::desc x = describe(d.x.dims(), candidate.x), y = describe(d.y.dims(), candidate.y);
    const memory::desc w = describe(d.w.dims(), Form::any);
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto finish = [&](const auto& pd, const memory::desc& px, const memory::desc& pw, const memory::desc& py) {
        const bool forward = p.role == ConvRole::forward, input = p.role == ConvRole::input_grad;
        plan.add_operand(input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, slot_x, input, d.x, px);
        plan.add_operand(p.role == ConvRole::weight_grad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, slot_w,
                         p.role == ConvRole::weight_grad, d.w, pw);
        plan.add_operand(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, slot_y, forward, d.y, py);
        if (p.bias != nullptr)
            plan.add_operand(forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, slot_bias, !forward, d.bias, d.bias);
        plan.finish(pd.scratchpad_desc());
        plan.description = pd.impl_info_str();
        for (const Operand& o : plan.operands)
            if (o.conversion) plan.description += std::string(", converts ") + "xwyb"[o.pointer];
        return true;
    };
    if (p.role == ConvRole::forward) {
        // oneDNN's walk over implementations reads the description again: it has to live as long.
        const auto desc = forward_desc(d, x, w, y, p.bias != nullptr ? &d.bias : nullptr);
        dnnl::convolution_forward::primitive_desc pd(desc, attributes(p.relu), engine(), true);
        if (!pd.get(true) || !advance(pd, candidate)) return false;
        plan.primitive = dnnl::convolution_forward(pd);
        return finish(pd, pd.src_desc(), pd.weights_desc(), pd.dst_desc());
    }
    const auto any = [](const memory::desc& desc) { return describe(desc.dims(), Form::any); };
    const auto hint_desc = forward_desc(d, any(d.x), any(d.w), any(d.y), nullptr);
    const dnnl::convolution_forward::primitive_desc hint(hint_desc, attributes(false), engine(), true);
    if (!hint.get(true)) return false;
    if (p.role == ConvRole::input_grad) {
        const dnnl::convolution_backward_data::desc desc(direct, x, w, y, d.stride, d.dilation, d.pad_low, d.pad_high);
        dnnl::convolution_backward_data::primitive_desc pd(desc, attributes(false), engine(), hint, true);
        if (!pd.get(true) || !advance(pd, candidate)) return false;
        plan.primitive = dnnl::convolution_backward_data(pd);
        return finish(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc());
    }
    using Desc = dnnl::convolution_backward_weights::desc;
    const Desc desc = p.bias != nullptr ? Desc(direct, x, w, d.bias, y, d.stride, d.dilation, d.pad_low, d.pad_high)
                                        : Desc(direct, x, w, y, d.stride, d.dilation, d.pad_low, d.pad_high);
    dnnl::convolution_backward_weights::primitive_desc pd(desc, attributes(false), engine(), hint, true);
    if (!pd.get(true) || !advance(pd, candidate)) return false;
    plan.primitive = dnnl::convolution_backward_weights(pd);
    return finish(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc());
}

struct Arrays {
    Strides x, w, y;
};

Plan build(const Problem& p, const Arrays& strides) {
    Descriptors d{describe(*p.x.shape, strides.x), describe(*p.w.shape, strides.w, p.settings.groups),
                  describe(*p.y.shape, strides.y), {},
                  dims_of(p.settings.stride),      dims_of(p.settings.dilation),
                  dims_of(p.settings.pad_low),     dims_of(p.settings.pad_high)};
    for (auto& step : d.dilation) --step;
    if (p.bias != nullptr) d.bias = {{(*p.w.shape)[0]}, memory::data_type::f32, memory::format_tag::a};
    const Formats given{is_plain(*p.x.shape, strides.x), is_channels_last(*p.x.shape, strides.x),
                        is_plain(*p.y.shape, strides.y), is_channels_last(*p.y.shape, strides.y)};
    for (const Candidate& candidate : candidates(p, given)) {
        Plan plan;
        if (build_candidate(p, d, candidate, plan)) return plan;
    }
    Plan refused;
    refused.refusal = "oneDNN has only its reference loops for this";
    return refused;
}

/// Strides that oneDNN gets to see: the caller's, or those of the dense f32 copy.
Strides seen(const View& v) {
    return v.dtype == f32 && is_regular(*v.shape, *v.strides) ? *v.strides : dense_like(*v.shape, *v.strides);
}

std::shared_ptr<const Plan> plan_of(const Problem& p, const Arrays& strides) {
    Key key;
    key.add(static_cast<std::int64_t>(p.role) + 4 * p.relu + 8 * (p.bias != nullptr) + 16 * p.spatial());
    key.add(thread_count());
    key.add(p.settings.groups);
    for (const View* v : {&p.x, &p.w, &p.y}) key.add(*v->shape);
    for (const Strides* s : {&strides.x, &strides.w, &strides.y}) key.add(*s);
    for (const Dims* s : {&p.settings.stride, &p.settings.dilation, &p.settings.pad_low, &p.settings.pad_high})
        key.add(*s);
    return cached_plan(key, [&] { return build(p, strides); });
}

/// The same elements as the caller has them and as a primitive wants them, when that is strides, or blocks of channels
/// whose axis is then two.
struct TwoLayouts {
    Shape shape;
    Strides given, inner;
    std::int64_t bytes = 0;
};

/// False for other layouts, and for padded ones.
bool describe_both(const View& view, const memory::desc& desc, TwoLayouts& both) {
    const auto& d = desc.data;
    const auto& blocking = d.format_desc.blocking;
    if (d.format_kind != dnnl_blocked || d.ndims != view.rank() || d.offset0 != 0 || d.extra.flags != 0) return false;
    const bool blocks = blocking.inner_nblks == 1 && blocking.inner_idxs[0] == 1;
    if (!blocks && blocking.inner_nblks != 0) return false;
    for (int i = 0; i < d.ndims; ++i)
        if (d.padded_dims[i] != d.dims[i]) return false;
    both = {};
    both.bytes = static_cast<std::int64_t>(desc.get_size());
    for (std::int64_t i = 0; i < view.rank(); ++i) {
        const std::int64_t size = view.size(i), step = view.stride(i), inner = blocking.strides[i];
        const std::int64_t block = blocks && i == 1 ? blocking.inner_blks[0] : 1;
        both.shape.push_back(size / block);
        both.given.push_back(step * block);
        both.inner.push_back(inner);
        if (block == 1) continue;
        both.shape.push_back(block);
        both.given.push_back(step);
        both.inner.push_back(1);
    }
    return true;
}

/// One operand of a call: itself, or an f32 copy of it: as the primitive wants it where that takes one pass, else dense
/// like the caller's.
class Staged {
public:
    Staged(const View& view, const Strides& strides, const Plan& plan, std::size_t slot)
        : view_(view), strides_(strides) {
        if (view.dtype == f32 && is_regular(*view.shape, *view.strides)) return;
        for (const Operand& o : plan.operands) {
            if (o.pointer != slot) continue;
            output_ = o.output;
            inner_ = o.conversion && view.dtype == bf16 && describe_both(view, o.inner, both_);
        }
        std::int64_t count = 1;
        for (const std::int64_t d : *view.shape) count *= d;
        copy_ = Scratch(inner_ ? both_.bytes : count * size_of(f32));
        if (output_) return;
        if (inner_) {
            pack(given(), copy_.floats(), both_.inner);
        } else {
            pack(view, copy_.floats(), strides);
        }
    }
    void* data() const { return copy_.floats() != nullptr ? copy_.floats() : view_.data; }
    bool is_inner() const { return inner_; }
    void give_back() const {
        if (!output_ || copy_.floats() == nullptr) return;
        if (inner_) {
            unpack(copy_.floats(), both_.inner, given());
        } else {
            unpack(copy_.floats(), strides_, view_);
        }
    }

private:
    View given() const { return {view_.data, view_.dtype, &both_.shape, &both_.given}; }

    const View& view_;
    const Strides& strides_;
    bool output_ = false, inner_ = false;
    TwoLayouts both_;
    Scratch copy_;
};

void run(const Problem& p) {
    if (const char* reason = check(p)) throw std::runtime_error(std::string("oneDNN convolution: ") + reason);
    guarded([&] {
        const Arrays strides{seen(p.x), seen(p.w), seen(p.y)};
        const auto plan = plan_of(p, strides);
        if (plan->refusal != nullptr) throw std::runtime_error(std::string("oneDNN convolution: ") + plan->refusal);
        const Staged x(p.x, strides.x, *plan, slot_x), w(p.w, strides.w, *plan, slot_w),
            y(p.y, strides.y, *plan, slot_y);
        const std::array<bool, 4> inner{x.is_inner(), w.is_inner(), y.is_inner(), false};
        if (p.bias == nullptr) {
            execute(*plan, {x.data(), w.data(), y.data(), nullptr}, inner);
        } else {
            const Strides dense{1};
            const bool direct = p.bias->dtype == f32 && ((*p.bias->strides)[0] == 1 || (*p.bias->shape)[0] == 1);
            Scratch copy(direct ? 0 : (*p.bias->shape)[0] * size_of(f32));
            const bool output = p.role == ConvRole::weight_grad;
            if (!direct && !output) pack(*p.bias, copy.floats(), dense);
            execute(*plan, {x.data(), w.data(), y.data(), direct ? p.bias->data : copy.floats()}, inner);
            if (!direct && output) unpack(copy.floats(), dense, *p.bias);
        }
        for (const Staged* staged : {&x, &w, &y}) staged->give_back();
    });
}

}  // namespace

const char* conv_why_not(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                         const ConvSettings& settings) {
    const Problem p{role, x, w, y, bias, settings};
    if (const char* reason = check(p)) return reason;
    return guarded([&] { return plan_of(p, {seen(x), seen(w), seen(y)})->refusal; });
}

void conv_forward(const View& x, const View& w, const View* bias, const View& y, const ConvSettings& settings,
                  bool relu) {
    run({ConvRole::forward, x, w, y, bias, settings, relu});
}

void conv_input_grad(const View& gy, const View& w, const View& gx, const ConvSettings& settings) {
    run({ConvRole::input_grad, gx, w, gy, nullptr, settings});
}

void conv_weight_grad(const View& x, const View& gy, const View& gw, const View* gbias, const ConvSettings& settings) {
    run({ConvRole::weight_grad, x, gw, gy, gbias, settings});
}

std::string conv_plan(ConvRole role, const View& x, const View& w, const View* bias, const View& y,
                      const ConvSettings& settings) {
    const Problem p{role, x, w, y, bias, settings};
    if (check(p) != nullptr) return {};
    return guarded([&] { return plan_of(p, {seen(x), seen(w), seen(y)})->description; });
}

Layout preferred_layout(const Dims&, const Dims&, const ConvSettings&) { return Layout::channels_last; }

}  // namespace calor::cpu::onednn
