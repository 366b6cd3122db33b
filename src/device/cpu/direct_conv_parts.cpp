// Checks, tables of offsets, padded copies.
#include "device/cpu/direct_conv_parts.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "device/cpu/parallel.h"

namespace calor::cpu::direct {
namespace {

const char* check_array(const View& view, std::int64_t rank, DType dtype) {
    if (view.shape->rank() != rank || view.strides->rank() != rank) return "ranks differ from 2 + the spatial axes";
    if (view.dtype != dtype) return "operands of different dtypes";
    std::int64_t count = 1;
    for (const std::int64_t d : *view.shape) {
        if (d <= 0) return "an axis of size 0";
        if (d > std::numeric_limits<std::int64_t>::max() / 8 / count) return "sizes beyond 64 bits";
        count *= d;
    }
    return nullptr;
}

/// Offsets within one image have 32 bits.
const char* check_image(std::int64_t channels, const Dims& extents) {
    std::int64_t count = channels;
    for (const std::int64_t e : extents) {
        if (e > std::numeric_limits<std::int32_t>::max() / count) return "an image of 2^31 elements or more";
        count *= e;
    }
    return nullptr;
}

const char* check_axis(const Problem& p, std::int64_t i) {
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    const std::int64_t stride = p.s.stride[i], dilation = p.s.dilation[i], low = p.s.pad_low[i], high = p.s.pad_high[i];
    if (stride < 1 || dilation < 1) return "a stride or dilation below 1";
    for (const std::int64_t v : {stride, dilation, std::abs(low), std::abs(high), p.x.size(i + 2), p.w.size(i + 2)})
        if (v > limit) return "sizes beyond 32 bits";
    const std::int64_t room = p.x.size(i + 2) + low + high - dilation * (p.w.size(i + 2) - 1) - 1;
    if (room < 0 || room / stride + 1 != p.y.size(i + 2)) return "an output size that does not follow";
    return nullptr;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace

std::int64_t product(const Dims& dims) {
    std::int64_t p = 1;
    for (const std::int64_t d : dims) p *= d;
    return p;
}

Dims spatial(const Dims& dims) { return Dims(std::span(dims.begin() + 2, dims.end())); }

Dims times(const Dims& a, const Dims& b) {
    Dims product = a;
    for (std::int64_t i = 0; i < a.rank(); ++i) product[i] *= b[i];
    return product;
}

Offsets grid(const Dims& sizes, const Dims& steps, std::int64_t base) {
    Offsets offsets(static_cast<std::size_t>(product(sizes)));
    Dims index(sizes.rank(), 0);
    std::int64_t at = base;
    for (auto& offset : offsets) {
        offset = static_cast<std::int32_t>(at);
        for (std::int64_t i = sizes.rank(); i-- > 0;) {
            at += steps[i];
            if (++index[i] < sizes[i]) break;
            at -= steps[i] * sizes[i];
            index[i] = 0;
        }
    }
    return offsets;
}

Offsets with_channels(const Offsets& taps, std::int64_t channels) {
    Offsets all;
    all.reserve(taps.size() * static_cast<std::size_t>(channels));
    for (const std::int32_t at : taps)
        for (std::int64_t c = 0; c < channels; ++c) all.push_back(at + static_cast<std::int32_t>(c));
    return all;
}

Window window_of(const Problem& p) {
    Window w;
    for (std::int64_t i = 0; i < p.axes(); ++i) {
        const std::int64_t stride = p.s.stride[i], reach = p.s.dilation[i] * (p.w.size(i + 2) - 1),
                           pad = p.s.pad_low[i];
        if (p.role == ConvRole::input_grad) {
            const std::int64_t first = floor_div(pad - reach, stride),
                               last = floor_div(p.x.size(i + 2) - 1 + pad, stride);
            w.low.push_back(first);
            w.extents.push_back(last - first + 1);
        } else {
            w.low.push_back(-pad);
            w.extents.push_back((p.y.size(i + 2) - 1) * stride + reach + 1);
        }
    }
    return w;
}

FloatWeights::FloatWeights(const View& v) : data(v.as<float>()), strides(*v.strides) {
    if (v.dtype == f32) return;
    strides = dense_like(*v.shape, *v.strides);
    copy = Scratch(product(*v.shape) * size_of(f32));
    pack(v, copy.floats(), strides);
    data = copy.floats();
}

std::vector<float> dense_bias(const View* bias) {
    if (bias == nullptr) return {};
    std::vector<float> dense(static_cast<std::size_t>(bias->size(0)));
    pack(*bias, dense.data(), Dims{1});
    return dense;
}

const char* check(const Problem& p) {
    const std::int64_t n = p.axes();
    if (n < 1) return "no spatial axis";
    const DType dtype = p.x.dtype;
    if (dtype != f32 && dtype != bf16 && dtype != f16) return "dtypes other than f32, bf16 and f16";
    if (p.s.dilation.rank() != n || p.s.pad_low.rank() != n || p.s.pad_high.rank() != n)
        return "settings of the wrong length";
    const bool sums = p.role == ConvRole::weight_grad && p.w.dtype == f32;
    for (const View* view : {&p.x, &p.w, &p.y})
        if (const char* reason = check_array(*view, n + 2, sums && view == &p.w ? f32 : dtype)) return reason;
    const std::int64_t groups = p.s.groups;
    if (groups < 1 || p.w.size(0) % groups != 0 || p.x.size(1) % groups != 0 || p.x.size(1) / groups != p.w.size(1))
        return "groups do not fit";
    if (p.x.size(0) != p.y.size(0) || p.y.size(1) != p.w.size(0)) return "shapes do not fit";
    for (std::int64_t i = 0; i < n; ++i)
        if (const char* reason = check_axis(p, i)) return reason;
    if (p.bias != nullptr) {
        if (const char* reason = check_array(*p.bias, 1, sums ? f32 : dtype)) return reason;
        if (p.bias->size(0) != (p.role == ConvRole::input_grad ? p.x : p.y).size(1)) return "a bias of the wrong size";
    }
    const Window window = window_of(p);
    const bool back = p.role == ConvRole::input_grad;
    if (const char* reason = check_image((back ? p.y.size(1) : p.x.size(1)) + 16, window.extents)) return reason;
    for (const View* v : {&p.x, &p.y}) {
        std::int64_t reach = 1;
        for (std::int64_t i = 1; i < n + 2; ++i) {
            const std::int64_t room = std::numeric_limits<std::int32_t>::max() - reach;
            if (std::abs(v->stride(i)) > room / v->size(i)) return "an image of 2^31 elements or more";
            reach += std::abs(v->stride(i)) * (v->size(i) - 1);
        }
        if (const char* reason = check_image(v->size(1), Dims(std::span(v->shape->begin() + 2, v->shape->end()))))
            return reason;
    }
    if (product(*p.w.shape) > std::numeric_limits<std::int32_t>::max()) return "weights of 2^31 elements or more";
    if (!is_regular(*p.result().shape, *p.result().strides)) return "an output that overlaps itself";
    return nullptr;
}

Input::Input(const View& v, Window window) : view_(v), window_(std::move(window)) {
    bool inside = v.dtype == f32 && (v.stride(1) == 1 || v.size(1) == 1);
    for (std::int64_t i = 0; i < window_.low.rank(); ++i)
        inside = inside && window_.low[i] >= 0 && window_.low[i] + window_.extents[i] <= v.size(i + 2);
    if (inside) {
        image = v.stride(0);
        steps = spatial(*v.strides);
        data_ = v.as<float>();
        for (std::int64_t i = 0; i < steps.rank(); ++i) data_ += window_.low[i] * v.stride(i + 2);
        return;
    }
    steps = Dims(window_.low.rank(), 0);
    // Pixels a multiple of 256 bytes apart would share a few sets of the first-level cache.
    image = v.size(1) + (v.size(1) % 64 == 0 ? 16 : 0);
    for (std::int64_t i = steps.rank(); i-- > 0;) {
        steps[i] = image;
        image *= window_.extents[i];
    }
}

void Input::copy(std::int64_t first, std::int64_t count, float* to) const {
    Dims shape{count, view_.size(1)}, to_strides{image, 1};
    std::int64_t from = first * view_.stride(0);
    for (std::int64_t i = 0; i < steps.rank(); ++i) {
        const std::int64_t begin = std::max<std::int64_t>(window_.low[i], 0);
        const std::int64_t end = std::min(window_.low[i] + window_.extents[i], view_.size(i + 2));
        if (end <= begin) return;
        shape.push_back(end - begin);
        to_strides.push_back(steps[i]);
        to += (begin - window_.low[i]) * steps[i];
        from += begin * view_.stride(i + 2);
    }
    pack({static_cast<char*>(view_.data) + from * size_of(view_.dtype), view_.dtype, &shape, view_.strides}, to,
         to_strides);
}

Room::Room(const Input& input, std::int64_t count) : input_(input) {
    if (input.in_place()) return;
    const std::int64_t floats = count * input.image;
    copy_ = Scratch(floats * size_of(f32));
    parallel_for(floats, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::fill(copy_.floats() + begin, copy_.floats() + end, 0.0F);
    });
}

const float* Room::get(std::int64_t first, std::int64_t count) const {
    if (input_.in_place()) return input_.data() + first * input_.image;
    input_.copy(first, count, copy_.floats());
    return copy_.floats();
}

Output::Output(const View& v) : view(v), strides(*v.strides) {
    if (v.dtype == f32 && (v.stride(1) == 1 || v.size(1) == 1)) {
        data = v.as<float>();
        return;
    }
    if (v.stride(1) == 1 || v.size(1) == 1) {
        rounded = v.as<std::uint16_t>();
        return;
    }
    std::int64_t step = v.size(1);
    strides[1] = 1;
    for (std::int64_t i = v.rank(); i-- > 0;) {
        if (i == 1) continue;
        strides[i] = step;
        step *= v.size(i);
    }
    copy = Scratch(step * size_of(f32));
    data = copy.floats();
}

void Output::give_back() const {
    if (copy.floats() != nullptr) unpack(data, strides, view);
}

}  // namespace calor::cpu::direct
