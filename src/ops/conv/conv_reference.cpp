// The reference of all three roles: plain loops for any rank, dtype and strides.
//
// Each role is   result[r0, r1, ...] = sum over the product of lists  p[sum of offsets] * q[sum of offsets]:
// along every axis, a coordinate of the result has a list of pairs (offset in p, offset in q) that it sums over. Along
// a spatial axis a pair is a tap: input position i, output position j and kernel entry k with i = j stride + k dilation
// - low; one of the three is the result's coordinate and the other two are what the list holds.
#include <vector>

#include "device/cpu/parallel.h"
#include "ops/conv/conv.h"

namespace calor::ops::conv {
namespace {

struct Pair {
    std::int64_t p = 0, q = 0;
};
using Pairs = std::vector<Pair>;

struct Axis {
    std::vector<Pairs> at;  ///< one list a coordinate of the result
};

std::vector<Axis> channel_axes(Role role, const Operands& o, std::int64_t groups) {
    const std::int64_t batch = o.x.size(0), out = o.y.size(1), in = o.w.size(1), out_group = out / groups;
    std::vector<Axis> axes(2);
    if (role == Role::weight_grad) {
        for (std::int64_t c = 0; c < out; ++c) {
            Pairs list;  // sums over the batch
            for (std::int64_t n = 0; n < batch; ++n) {
                list.push_back(
                    {n * o.x.stride(0) + c / out_group * in * o.x.stride(1), n * o.y.stride(0) + c * o.y.stride(1)});
            }
            axes[0].at.push_back(list);
        }
        for (std::int64_t c = 0; c < in; ++c) axes[1].at.push_back({{c * o.x.stride(1), 0}});
        return axes;
    }
    for (std::int64_t n = 0; n < batch; ++n) {
        axes[0].at.push_back({{n * (role == Role::forward ? o.x : o.y).stride(0), 0}});
    }
    const std::int64_t results = role == Role::forward ? out : in * groups;
    for (std::int64_t c = 0; c < results; ++c) {
        Pairs list;
        if (role == Role::forward) {
            for (std::int64_t i = 0; i < in; ++i) {
                list.push_back({(c / out_group * in + i) * o.x.stride(1), c * o.w.stride(0) + i * o.w.stride(1)});
            }
        } else {
            for (std::int64_t i = c / in * out_group; i < (c / in + 1) * out_group; ++i) {
                list.push_back({i * o.y.stride(1), i * o.w.stride(0) + c % in * o.w.stride(1)});
            }
        }
        axes[1].at.push_back(list);
    }
    return axes;
}

Axis spatial_axis(Role role, const Operands& o, const Window& w, std::int64_t a) {
    const std::int64_t i_size = o.x.size(a + 2), k_size = o.w.size(a + 2), j_size = o.y.size(a + 2);
    const std::int64_t results = role == Role::forward ? j_size : role == Role::input_grad ? i_size : k_size;
    Axis axis;
    axis.at.resize(static_cast<std::size_t>(results));
    for (std::int64_t j = 0; j < j_size; ++j) {
        for (std::int64_t k = 0; k < k_size; ++k) {
            const std::int64_t i = j * w.stride[a] + k * w.dilation[a] - w.pad_low[a];
            if (i < 0 || i >= i_size) continue;
            const std::int64_t x = i * o.x.stride(a + 2), y = j * o.y.stride(a + 2), kernel = k * o.w.stride(a + 2);
            if (role == Role::forward) axis.at[static_cast<std::size_t>(j)].push_back({x, kernel});
            if (role == Role::input_grad) axis.at[static_cast<std::size_t>(i)].push_back({y, kernel});
            if (role == Role::weight_grad) axis.at[static_cast<std::size_t>(k)].push_back({x, y});
        }
    }
    return axis;
}

/// Sum over the product of the lists from `level` on.
template <class A, class P, class Q>
A sum_lists(const P* p, const Q* q, const std::vector<const Pairs*>& lists, std::size_t level) {
    A total = A(0);
    for (const Pair& pair : *lists[level]) {
        if (level + 1 == lists.size()) {
            total += static_cast<A>(p[pair.p]) * static_cast<A>(q[pair.q]);
        } else {
            total += sum_lists<A>(p + pair.p, q + pair.q, lists, level + 1);
        }
    }
    return total;
}

/// Sums of gy over everything but its channels.
template <class Y, class T, class A> void bias_grad(const View& gy, const View& bias) {
    Dims index(gy.rank(), 0);
    std::vector<A> sums(static_cast<std::size_t>(gy.size(1)), A(0));
    for (std::int64_t i = 0, count = gy.count(); i < count; ++i) {
        std::int64_t from = 0;
        for (std::int64_t a = 0; a < gy.rank(); ++a) from += index[a] * gy.stride(a);
        sums[static_cast<std::size_t>(index[1])] += static_cast<A>(gy.as<Y>()[from]);
        for (std::int64_t a = gy.rank() - 1; a >= 0 && ++index[a] == gy.size(a); --a) index[a] = 0;
    }
    for (std::int64_t c = 0; c < gy.size(1); ++c) bias.as<T>()[c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
}

/// P and Q are the operands' types, T the result's, A the one to sum in.
template <class P, class Q, class T, class A> void run(Role role, const graph::Call& call) {
    const auto& attributes = call.attrs<Attributes>();
    const Operands o = operands(role, call);
    std::vector<Axis> axes = channel_axes(role, o, attributes.groups);
    for (std::int64_t a = 0; a < attributes.window.rank(); ++a)
        axes.push_back(spatial_axis(role, o, attributes.window, a));
    const View& result = call.outputs[0];
    const View& p = role == Role::input_grad ? o.y : o.x;
    const View& q = role == Role::weight_grad ? o.y : o.w;
    const bool bias = role != Role::weight_grad && o.bias;
    const std::int64_t rank = result.rank();
    cpu::parallel_for(result.count(), 16, [&](std::int64_t begin, std::int64_t end) {
        std::vector<const Pairs*> lists(axes.size());
        for (std::int64_t i = begin; i < end; ++i) {
            std::int64_t rest = i, to = 0, channel = 0;
            for (std::int64_t a = rank - 1; a >= 0; --a) {
                const std::int64_t at = rest % result.size(a);
                rest /= result.size(a);
                to += at * result.stride(a);
                if (a == 1) channel = at;
                lists[static_cast<std::size_t>(a)] =
                    &axes[static_cast<std::size_t>(a)].at[static_cast<std::size_t>(at)];
            }
            A total = sum_lists<A>(p.as<const P>(), q.as<const Q>(), lists, 0);
            if (bias) total += static_cast<A>(o.bias->as<T>()[channel * o.bias->stride(0)]);
            result.as<T>()[to] = static_cast<T>(total);
        }
    });
    if (role == Role::weight_grad && o.bias) bias_grad<Q, T, A>(o.y, *o.bias);
}

template <class T, class A> void run(Role role, const graph::Call& call) { run<T, T, T, A>(role, call); }

/// 8-bit operands of either sign, i32 sums.
template <class P> void run_bytes(Role role, const graph::Call& call, DType q) {
    if (q == i8) return run<P, std::int8_t, std::uint32_t, std::uint32_t>(role, call);
    run<P, std::uint8_t, std::uint32_t, std::uint32_t>(role, call);
}

}  // namespace

void run_reference(Role role, const graph::Call& call) {
    if (without_products(role, call)) return;
    const Operands o = operands(role, call);
    const DType p = (role == Role::input_grad ? o.y : o.x).dtype, q = (role == Role::weight_grad ? o.y : o.w).dtype;
    if (p == i8) return run_bytes<std::int8_t>(role, call, q);
    if (p == u8) return run_bytes<std::uint8_t>(role, call, q);
    switch (p) {
        case f64: return run<double, double>(role, call);
        case f32: return run<float, double>(role, call);
        case f16: return run<float16, float>(role, call);
        case bf16: return run<bfloat16, float>(role, call);
        case i64:
        case u64: return run<std::uint64_t, std::uint64_t>(role, call);
        case i32:
        case u32: return run<std::uint32_t, std::uint32_t>(role, call);
        case i16:
        case u16: return run<std::uint16_t, std::uint32_t>(role, call);
        case i8:
        case u8:
        case boolean: break;
    }
    fail_internal("a convolution of bool was recorded", call.where);
}

}  // namespace calor::ops::conv
