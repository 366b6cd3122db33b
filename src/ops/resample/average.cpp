// avg_pool and adaptive_avg_pool as tables. Divisors of windows in several axes are products of those of each axis.
#include "calor/pool.h"
#include "calor/resample.h"
#include "ops/resample/resample.h"
#include "ops/resample/tables.h"
#include "ops/window.h"

namespace calor {

using namespace ops::resample;  // NOLINT: the file implements this family

Tensor avg_pool(const Tensor& x, const AvgPoolOptions& o, const Where& where) {
    const Naming naming("avg_pool");
    constexpr std::string_view name = "avg_pool";
    ops::check_defined(name, x, "the input", where);
    if (x.rank() < 3) fail("pool/rank", name, where, {{"got", x.rank()}}, describe(x));
    const Dims sizes(std::span(x.shape().data() + 2, x.shape().size() - 2));
    const Dims kernel = ops::per_axis(name, "kernel", o.kernel, sizes.rank(), 0, where);
    const PerAxis stride = o.stride.given() ? o.stride : PerAxis(kernel);
    ops::Window w = ops::resolve_window(name, kernel, {stride, o.dilation, o.padding}, sizes, where);
    ops::cut_strides(w, sizes);
    ops::check_option(name, "divisor", o.divisor, 0, where);
    check_floating(name, x, where);
    Dims positions;
    for (std::int64_t i = 0; i < w.rank(); ++i) {
        positions.push_back(ops::pool_positions(name, w, i, sizes[i], o.ceil_mode, x, where));
    }
    Shape result = x.shape();
    for (std::int64_t i = 0; i < w.rank(); ++i) result[i + 2] = positions[i];
    checked_bytes(result, x.dtype(), where);
    Axes axes;
    std::vector<TableRef> tables;
    for (std::int64_t i = 0; i < w.rank(); ++i) {
        const std::int64_t axis = i + 2, outputs = positions[i];
        if (sizes[i] > 0) check_not_empty(name, axis, x, where);
        check_size(name, axis, outputs, x, where);
        check_entries(name, axis, outputs, static_cast<double>(outputs) * static_cast<double>(w.kernel[i]), x, where);
        const std::int64_t divisor = o.divisor == 0 ? 0 : i == 0 ? o.divisor : 1;
        axes.push_back(axis);
        tables.push_back(window_table({sizes[i], outputs, w.kernel[i], w.stride[i], w.dilation[i], w.pad_low[i],
                                       w.pad_high[i], o.count_include_pad, divisor}));
    }
    return apply_tables(x, axes, std::move(tables), false, where);
}

Tensor adaptive_avg_pool(const Tensor& x, const AdaptiveAvgPoolOptions& o, const Where& where) {
    const Naming naming("adaptive_avg_pool");
    constexpr std::string_view name = "adaptive_avg_pool";
    check_rank(name, x, where);
    check_floating(name, x, where);
    const Dims sizes = ops::per_axis(name, "size", o.size, x.rank() - 2, 0, where);
    Shape result = x.shape();
    for (std::int64_t i = 0; i < sizes.rank(); ++i) {
        if (sizes[i] == keep) continue;
        check_not_empty(name, i + 2, x, where);
        check_size(name, i + 2, sizes[i], x, where);
        result[i + 2] = sizes[i];
    }
    checked_bytes(result, x.dtype(), where);
    Axes axes;
    std::vector<TableRef> tables;
    for (std::int64_t i = 0; i < sizes.rank(); ++i) {
        const std::int64_t axis = i + 2;
        if (sizes[i] == keep) continue;
        const auto in = static_cast<double>(x.size(axis)), out = static_cast<double>(sizes[i]);
        check_entries(name, axis, sizes[i], in + 2 * out, x, where);
        axes.push_back(axis);
        tables.push_back(adaptive_table(x.size(axis), sizes[i]));
    }
    return apply_tables(x, axes, std::move(tables), false, where);
}

}  // namespace calor
