// The reference scans: one line after the other, one element after the other, in f64 or in unsigned integers.
#include <cmath>
#include <type_traits>

#include "ops/scan/scan.h"

namespace calor::ops::scan {
namespace {

template <class T> using Number = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

template <class T> Number<T> read(const T& value) {
    if constexpr (std::is_integral_v<T>) return static_cast<std::uint64_t>(value);
    if constexpr (std::is_same_v<T, double>) return value;
    if constexpr (!std::is_integral_v<T> && !std::is_same_v<T, double>)
        return static_cast<double>(static_cast<float>(value));
}
template <class T> T rounded(Number<T> value) {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) return static_cast<T>(value);
    if constexpr (!std::is_integral_v<T> && !std::is_same_v<T, double>) return T(static_cast<float>(value));
}

/// What is known after some elements.
template <class N> struct Running {
    N value{};
    double largest = -HUGE_VAL;  ///< logsumexp: value is the sum of exp(x - largest)
    N factor{};                  ///< recurrence with a lag: that of the element before

    void take(const Attributes& a, N x, N b) {
        switch (a.kind) {
            case Kind::sum: value = value + x; break;
            case Kind::product: value = value * x; break;
            case Kind::logsumexp: take_logarithm(static_cast<double>(x)); break;
            case Kind::recurrence:
                value = (a.lag ? factor : x) * value + b;
                factor = x;
                break;
        }
    }
    N result(const Attributes& a) const {
        if (a.kind != Kind::logsumexp) return value;
        return static_cast<N>(largest + std::log(static_cast<double>(value)));
    }

private:
    void take_logarithm(double x) {
        const double top = std::isnan(x) || std::isnan(largest) ? NAN : std::fmax(x, largest);
        const auto scaled = [&](double v) { return v == top ? 1.0 : std::exp(v - top); };
        value = static_cast<N>(static_cast<double>(value) * scaled(largest) + scaled(x));
        largest = top;
    }
};

template <class T> void scan(const graph::Call& c) {
    using N = Number<T>;
    const auto& a = c.attrs<Attributes>();
    const View &x = c.inputs[0], &b = c.inputs.back(), &y = c.outputs[0];
    const std::int64_t n = y.size(a.axis), lines = y.count() == 0 ? 0 : y.count() / n;
    const LineOffsets x_at(x, a.axis), b_at(b, a.axis), y_at(y, a.axis);
    for (std::int64_t line = 0; line < lines; ++line) {
        Running<N> running;
        if (a.kind == Kind::product) running.value = 1;
        for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = a.reverse ? n - 1 - k : k;
            T& to = y.as<T>()[y_at(line) + i * y.stride(a.axis)];
            if (a.exclusive) to = rounded<T>(running.result(a));
            running.take(a, read(x.as<T>()[x_at(line) + i * x.stride(a.axis)]),
                         read(b.as<T>()[b_at(line) + i * b.stride(a.axis)]));
            if (!a.exclusive) to = rounded<T>(running.result(a));
        }
    }
}

}  // namespace

void run_reference(const graph::Call& c) {
    switch (c.outputs[0].dtype) {
        case f64: return scan<double>(c);
        case f32: return scan<float>(c);
        case f16: return scan<float16>(c);
        case bf16: return scan<bfloat16>(c);
        case i64: return scan<std::int64_t>(c);
        case i32: return scan<std::int32_t>(c);
        case i16: return scan<std::int16_t>(c);
        case i8: return scan<std::int8_t>(c);
        case u64: return scan<std::uint64_t>(c);
        case u32: return scan<std::uint32_t>(c);
        case u16: return scan<std::uint16_t>(c);
        case u8: return scan<std::uint8_t>(c);
        default: fail_internal("a scan of a dtype that was not converted");
    }
}

}  // namespace calor::ops::scan
