// When rows.kernel takes a resampling, and its tiles: enough rows a group for the local memory that leaves the caches
// room, and enough groups for the device.
#include "ops/resample/resample_gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile resample_rows;
}

namespace ops::resample {
namespace {

constexpr std::int64_t threads = 256, most_rows = 64;
constexpr std::int64_t local_bytes[] = {12 << 10, 32 << 10};  // of a group, with rows that fit the first or the second
constexpr std::int64_t most_reads = 64;                       // of an element of x, by the tables before the last

struct Plan {
    const char* refusal = nullptr;
    std::vector<Axis> axes;
    std::int64_t outer = 0;  ///< tables before the last axis' one
    std::int64_t vector = 1, lanes = 1, part = 1, tile = 1;
    std::int64_t rows = 1, pitch = 0, cells = 0;
};

bool is_last_tabled(const std::vector<Axis>& axes) { return !axes.empty() && axes.back().table != nullptr; }

/// Tables must be along the last axes.
std::int64_t outer_tables(const std::vector<Axis>& axes) {
    std::int64_t tables = 0;
    for (const Axis& a : axes) {
        if (!a.table && tables > 0) return -1;
        tables += a.table ? 1 : 0;
    }
    return tables - 1;
}

/// How often an element of x is read on average.
double reads(const Plan& plan) {
    double all = 1;
    for (std::size_t i = plan.axes.size() - 1 - static_cast<std::size_t>(plan.outer); i + 1 < plan.axes.size(); ++i) {
        const Axis& a = plan.axes[i];
        all *= static_cast<double>(a.table->taps()) / static_cast<double>(std::max<std::int64_t>(1, a.in));
    }
    return all;
}

/// Neighbours that are read at once.
std::int64_t vector_of(const View& x, const std::vector<Axis>& axes) {
    std::int64_t n = neighbours_of(axes.back().in, x.dtype);
    const auto fits = [&] {
        if (reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(n * size_of(x.dtype)) != 0)
            return false;
        return std::all_of(axes.begin(), axes.end() - 1, [&](const Axis& a) { return a.in == 1 || a.stride % n == 0; });
    };
    while (n > 1 && !fits()) n /= 2;
    return n;
}

/// `element`, `input`: bytes of a sum and of an element of x.
void choose_tile(Plan& plan, std::int64_t element, std::int64_t input, int units) {
    const std::int64_t inputs = plan.axes.back().in, blocks = plan.axes.back().out / plan.lanes;
    plan.pitch = inputs + (blocks < 32 ? plan.vector : 0);  // threads of several rows then meet in other banks
    plan.cells = local_bytes[plan.pitch * element * 4 > local_bytes[0] ? 1 : 0] / element;
    const std::int64_t fit = std::min(most_rows, plan.cells / plan.pitch);
    const std::int64_t fair = (plan.rows + 8 * units - 1) / (8 * units),
                       most = std::max<std::int64_t>(1, std::min(fit, fair));
    plan.part = 8;
    while (plan.part > 1 && (plan.part > most || most / plan.part * blocks < threads)) plan.part /= 2;
    plan.tile = most / plan.part * plan.part;
    while (plan.vector > 1 && plan.vector * input > 4 && plan.tile * inputs / plan.vector < threads) plan.vector /= 2;
}

Plan plan_of(const graph::Call& call) {
    Plan plan;
    const View &x = call.inputs[0], &y = call.outputs[0];
    const auto refuse = [&](const char* reason) {
        plan.refusal = reason;
        return plan;
    };
    if (!is_floating(y.dtype)) return refuse("a dtype that is not floating");
    if (y.count() == 0 || x.count() == 0) return refuse("nothing to compute");
    plan.axes = axes_of(call);
    plan.outer = outer_tables(plan.axes);
    if (!is_last_tabled(plan.axes) || plan.outer < 0)
        return refuse("no table along the last axis of memory alone or with those before it");
    if (plan.outer > 2) return refuse("more than 3 tables");
    if (plan.axes.back().stride != 1 && plan.axes.back().in > 1) return refuse("rows with gaps");
    if (reads(plan) > static_cast<double>(most_reads)) return refuse("tables that read an input very often");
    const std::int64_t element = y.dtype == f64 ? 8 : 4;
    plan.rows = y.count() / plan.axes.back().out;
    plan.vector = vector_of(x, plan.axes);
    // Two neighbours a thread where rows grow; where they shrink, threads would meet in banks of local memory.
    const bool grows = plan.axes.back().out > plan.axes.back().in;
    plan.lanes = grows && size_of(y.dtype) == 2 && plan.axes.back().out % 2 == 0 ? 2 : 1;
    choose_tile(plan, element, size_of(x.dtype), call.backend.gpu()->traits().units);
    if (plan.pitch > plan.cells) return refuse("rows longer than local memory");
    return plan;
}

/// The last `count` axes of a list are the tables.
std::vector<const Table*> tables_of(const Plan& plan) {
    std::vector<const Table*> list;
    for (const Axis& a : plan.axes) {
        if (a.table) list.push_back(a.table);
    }
    return list;
}

}  // namespace

const char* rows_why_not(const graph::Call& call) { return plan_of(call).refusal; }

void run_rows_on_gpu(const graph::Call& call) {
    const Plan plan = plan_of(call);
    const View &x = call.inputs[0], &y = call.outputs[0];
    const bool wide = y.dtype == f64;
    const DeviceTables tables = tables_on_device(call, tables_of(plan), wide ? Weights::f64 : Weights::f32);
    Dims sizes, strides;
    std::int64_t reach = 0;
    for (std::size_t i = 0; i + 1 < plan.axes.size(); ++i) {
        sizes.push_back(plan.axes[i].out);
        strides.push_back(plan.axes[i].stride);
        reach = std::max(reach, plan.axes[i].in * std::abs(plan.axes[i].stride));
    }
    if (sizes.empty()) {
        sizes.push_back(1);
        strides.push_back(0);
    }
    const Axis& last = plan.axes.back();
    launch(call, kernels::resample_rows, "resample_rows")
        .constant("X", x.dtype)
        .constant("Y", y.dtype)
        .constant("A", wide ? f64 : f32)
        .constant("V", plan.vector)
        .constant("LANES", plan.lanes)
        .constant("PART", plan.part)
        .constant("OUTER", plan.outer)
        .constant("RANK", sizes.rank())
        .constant("CELLS", plan.cells)
        .constant("ROWS", most_rows)
        .buffer(x)
        .buffer(y)
        .buffer(tables.ints)
        .buffer(tables.weights)
        .size(plan.rows)
        .size(plan.tile)
        .size(last.out)
        .size(plan.pitch)
        .number(tables.divisor, wide ? f64 : f32)
        .structure(tables.places)
        .layout(sizes, {strides})
        .layout(Dims{plan.tile, last.in / plan.vector}, {Dims{0, 0}})
        .layout(Dims{plan.tile / plan.part, last.out / plan.lanes}, {Dims{0, 0}})
        .wide(reach >= std::int64_t{1} << 30)
        .threads(threads)
        .run((plan.rows + plan.tile - 1) / plan.tile);
}

}  // namespace ops::resample
}  // namespace calor
