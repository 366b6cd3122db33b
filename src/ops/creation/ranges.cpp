// arange, linspace and logspace: an element is computed from its index alone, in 64-bit integers or in f64, and rounded
// once to the dtype. arange(9) * 1500000000 is exact in i64, and no error adds up along a range.
#include <cmath>
#include <limits>

#include "calor/creation.h"
#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "ops/creation/creation_gpu.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace calor {
namespace {

struct RangeAttributes {
    std::int64_t count = 0;
    DType dtype = f32;
    bool integral = false;
    std::uint64_t first = 0, distance = 0;  ///< integral: wrap like the dtype's integers
    double start = 0, stop = 0, step = 0;
    double base = 0;  ///< logspace: powers of it; else 0
    friend bool operator==(const RangeAttributes&, const RangeAttributes&) = default;
};

graph::Specs infer_range(const graph::InferContext& c) {
    const auto& a = c.attrs<RangeAttributes>();
    return {{{a.count}, a.dtype}};
}

/// Calls value(i) for tiles of indices and converts them from `from` to the dtype of the result.
template <class T, class F> void fill(const graph::Call& c, const F& value) {
    const View& y = c.outputs[0];
    const TileKernel convert = cpu::find_convert(dtype_of<T>, y.dtype);
    constexpr std::int64_t tile = 512;
    cpu::parallel_for(y.count(), 8192, [&](std::int64_t begin, std::int64_t end) {
        T values[tile];
        for (std::int64_t i = begin; i < end; i += tile) {
            const std::int64_t n = std::min(tile, end - i);
            for (std::int64_t k = 0; k < n; ++k) values[k] = value(i + k);
            const void* const in[1] = {values};
            convert(in, y.as<std::byte>() + i * size_of(y.dtype), n, nullptr);
        }
    });
}

void run_arange(const graph::Call& c) {
    const auto& a = c.attrs<RangeAttributes>();
    if (a.integral) {
        fill<std::uint64_t>(c, [&](std::int64_t i) { return a.first + static_cast<std::uint64_t>(i) * a.distance; });
    } else {
        fill<double>(c, [&](std::int64_t i) { return a.start + static_cast<double>(i) * a.step; });
    }
}

/// Counted from the nearer end, so that both ends are exact and the range is symmetric.
void run_linspace(const graph::Call& c) {
    const auto& a = c.attrs<RangeAttributes>();
    fill<double>(c, [&](std::int64_t i) {
        const std::int64_t back = a.count - 1 - i;
        const double x =
            i <= back ? a.start + static_cast<double>(i) * a.step : a.stop - static_cast<double>(back) * a.step;
        return a.base == 0 ? x : std::pow(a.base, x);
    });
}

template <void (*run)(const graph::Call&)> std::span<const graph::Implementation> only(DeviceKind) {
    static const graph::Implementation list[] = {{.name = "reference", .run = run}};
    return list;
}
template <void (*run)(const graph::Call&)> std::span<const graph::Implementation> only_on_gpu() {
    static const graph::Implementation list[] = {{.name = "reference", .run = run}};
    return list;
}
void arange_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<RangeAttributes>();
    if (a.integral) return ops::whole_range_on_gpu(c, a.first, a.distance);
    ops::range_on_gpu(c, a.start, a.step);
}
void linspace_on_gpu(const graph::Call& c) {
    const auto& a = c.attrs<RangeAttributes>();
    ops::spaced_on_gpu(c, a.start, a.stop, a.step, a.base);
}
const graph::Operation arange_operation{.name = "arange",
                                        .infer = infer_range,
                                        .implementations = only<run_arange>,
                                        .gpu_implementations = only_on_gpu<arange_on_gpu>};
const graph::Operation linspace_operation{.name = "linspace",
                                          .infer = infer_range,
                                          .implementations = only<run_linspace>,
                                          .gpu_implementations = only_on_gpu<linspace_on_gpu>};
const graph::Operation logspace_operation{.name = "logspace",
                                          .infer = infer_range,
                                          .implementations = only<run_linspace>,
                                          .gpu_implementations = only_on_gpu<linspace_on_gpu>};

__extension__ using Wide = __int128;
Wide exactly(const Scalar& s) {
    return s.huge() ? static_cast<Wide>(static_cast<std::uint64_t>(s.integer())) : static_cast<Wide>(s.integer());
}

[[noreturn]] void fail_long(const Where& where) {
    fail("shape/overflow", "arange", where, {{"what", "the length of the range"}});
}

void check_step(bool zero, const Where& where) {
    if (!zero) return;
    fail(
        "value/option", "arange", where,
        {{"option", "step"}, {"got", 0}, {"expected", "a number other than 0"}, {"help", "full() repeats one number"}});
}

Tensor integer_range(const Scalar& start, const Scalar& stop, const Scalar& step, DType dtype, const Where& where) {
    const Wide from = exactly(start), by = exactly(step), span = by > 0 ? exactly(stop) - from : from - exactly(stop);
    const Wide stride = by > 0 ? by : -by, count = span > 0 ? (span - 1) / stride + 1 : 0;
    if (count > std::numeric_limits<std::int64_t>::max()) fail_long(where);
    RangeAttributes a;
    a.count = static_cast<std::int64_t>(count);
    a.dtype = dtype;
    a.integral = is_integer(dtype);
    a.first = static_cast<std::uint64_t>(from);
    a.distance = static_cast<std::uint64_t>(by);
    a.start = start.floating();
    a.step = step.floating();
    if (count > 0 && a.integral) {
        (void)scalar(start, dtype, where);
        const Wide last = from + (count - 1) * by;
        (void)(last > std::numeric_limits<std::int64_t>::max() ? scalar(static_cast<std::uint64_t>(last), dtype, where)
                                                               : scalar(static_cast<std::int64_t>(last), dtype, where));
    }
    return graph::record(arange_operation, a, std::span<const Tensor>(), where);
}

Tensor floating_range(const Scalar& start, const Scalar& stop, const Scalar& step, DType dtype, const Where& where) {
    for (const Scalar* s : {&start, &stop, &step}) {
        if (!is_floating(dtype)) (void)scalar(*s, dtype, where);  // a broken number in an integer range
        if (std::isfinite(s->floating())) continue;
        fail("value/option", "arange", where,
             {{"option", "an end or the step"},
              {"got", s->floating()},
              {"expected", "a finite number"},
              {"help", "a range has finitely many elements"}});
    }
    const double count = std::ceil((stop.floating() - start.floating()) / step.floating());
    if (!(count < 0x1p62)) fail_long(where);
    RangeAttributes a;
    a.count = count > 0 ? static_cast<std::int64_t>(count) : 0;
    a.dtype = dtype;
    a.start = start.floating();
    a.step = step.floating();
    return graph::record(arange_operation, a, std::span<const Tensor>(), where);
}

Tensor spaced(const graph::Operation& operation, double start, double stop, std::int64_t count, double base,
              DType dtype, const Where& where) {
    if (!is_floating(dtype)) {
        fail("dtype/unsupported", operation.name, where,
             {{"argument", "the result"}, {"got", dtype}, {"expected", "a floating dtype"}});
    }
    for (const double end : {start, stop}) {
        if (std::isfinite(end)) continue;
        fail("value/option", operation.name, where,
             {{"option", "an end"}, {"got", end}, {"expected", "a finite number"}, {"help", "both ends are elements"}});
    }
    RangeAttributes a;
    a.count = count;
    a.dtype = dtype;
    a.start = start;
    a.stop = count == 1 ? start : stop;
    const auto steps = static_cast<double>(std::max<std::int64_t>(count, 2) - 1);
    a.step = count > 1 ? stop / steps - start / steps : 0;
    if (count > 1 && std::isfinite(stop - start)) a.step = (stop - start) / steps;
    a.base = base;
    return graph::record(operation, a, std::span<const Tensor>(), where);
}

bool all_integers(const Scalar& a, const Scalar& b, const Scalar& c) {
    const auto integer = [](const Scalar& s) { return s.kind() != Scalar::Kind::floating; };
    return integer(a) && integer(b) && integer(c);
}

}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype, const Where& where) {
    const Naming naming("arange");
    if (dtype == boolean) {
        fail("dtype/unsupported", "arange", where,
             {{"argument", "the result"}, {"got", dtype}, {"expected", "a number's dtype"}});
    }
    check_step(step.floating() == 0, where);
    return all_integers(start, stop, step) ? integer_range(start, stop, step, dtype, where)
                                           : floating_range(start, stop, step, dtype, where);
}
Tensor arange(Scalar start, Scalar stop, Scalar step, const Where& where) {
    const Naming naming("arange");
    return arange(start, stop, step, all_integers(start, stop, step) ? i64 : f32, where);
}
Tensor arange(Scalar start, Scalar stop, DType dtype, const Where& where) {
    const Naming naming("arange");
    return arange(start, stop, 1, dtype, where);
}
Tensor arange(Scalar stop, DType dtype, const Where& where) {
    const Naming naming("arange");
    return arange(0, stop, 1, dtype, where);
}
Tensor arange(Scalar stop, const Where& where) {
    const Naming naming("arange");
    return arange(0, stop, 1, where);
}

Tensor linspace(double start, double stop, std::int64_t count, DType dtype, const Where& where) {
    const Naming naming("linspace");
    return spaced(linspace_operation, start, stop, count, 0, dtype, where);
}

Tensor logspace(double start, double stop, std::int64_t count, double base, DType dtype, const Where& where) {
    const Naming naming("logspace");
    if (!(base > 0) || !std::isfinite(base)) {
        fail("value/option", "logspace", where,
             {{"option", "base"},
              {"got", base},
              {"expected", "a finite number above 0"},
              {"help", "10 and 2 are common"}});
    }
    return spaced(logspace_operation, start, stop, count, base, dtype, where);
}

ops::Descriptors ops::range_descriptors() { return {&arange_operation, &linspace_operation, &logspace_operation}; }

}  // namespace calor
