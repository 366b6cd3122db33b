// Which tile, how many partial sums, and the launches of contraction.kernel.
#include "device/gpu/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/fail.h"
#include "device/gpu/autotune.h"
#include "device/gpu/launch.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile gpu_contraction;
}

namespace gpu {
namespace {

/// Rows and columns of a tile, and of what a thread computes of it. `speed`: of the arithmetic, against the largest.
struct Tile {
    std::int64_t rows, columns, own_rows, own_columns;
    double speed;
    std::int64_t threads() const { return rows * columns / (own_rows * own_columns); }
};
constexpr Tile tiles[] = {
    {128, 128, 8, 8, 1.0}, {64, 64, 4, 4, 0.7}, {32, 128, 4, 4, 0.6}, {128, 32, 4, 4, 0.6}, {32, 32, 4, 4, 0.45}};
constexpr std::size_t most_candidates = 3;  // of these, for measurements: each is compiled
constexpr std::int64_t tile_inner = 16;

constexpr std::int64_t most_groups = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t partial_bytes = std::int64_t{64} << 20;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class List> std::int64_t count_of(const List& digits) {
    std::int64_t count = 1;
    for (const auto& d : digits) count *= d.size;
    return count;
}

/// What sums run in. Integers wrap, so they are summed unsigned.
DType sum_type(DType dtype) {
    if (dtype == f64) return f64;
    if (is_floating(dtype)) return f32;
    return size_of(dtype) == 8 ? u64 : u32;
}

/// The dtype to read an operand in: where results are as wide as operands, the sign of integers makes no difference.
DType read_type(DType operand, DType result) {
    if (is_floating(operand) || size_of(operand) != size_of(result)) return operand;
    constexpr DType by_size[] = {u8, u16, u32, u64};
    for (const DType t : by_size) {
        if (size_of(t) == size_of(operand)) return t;
    }
    return operand;
}

struct Plan {
    Tile tile{};                   ///< the default: the number of parts follows from it
    std::vector<Tile> candidates;  ///< the default, then others by expected time
    std::int64_t columns = 0, depth = 0, batch = 0;
    std::int64_t part = 1, parts = 1;  ///< inner entries of a part
    std::int64_t tile_count = 0;
    /// As many as the smallest tile has.
    std::int64_t groups_at_most() const {
        return (tile_count == 0 ? 0 : tile_count * (128 * 128 / (32 * 32))) * batch * parts;
    }
};

std::int64_t tiles_of(const Contraction& p, const Tile& t, std::int64_t columns) {
    return ceil_div(p.rows, t.rows) * ceil_div(columns, t.columns);
}

/// The tiles that take the least time if every multiprocessor computes one after the other at the tile's speed.
std::vector<Tile> best_tiles(const Contraction& p, const Plan& plan, DType sum, int units) {
    std::vector<std::pair<double, Tile>> list;
    for (const Tile& t : tiles) {
        if (size_of(sum) == 8 && t.own_rows * t.own_columns > 16) continue;  // too many registers
        const auto waves = static_cast<double>(ceil_div(tiles_of(p, t, plan.columns) * plan.batch, units));
        list.emplace_back(waves * static_cast<double>(t.rows * t.columns) / t.speed, t);
    }
    std::ranges::stable_sort(list, {}, &std::pair<double, Tile>::first);
    std::vector<Tile> best;
    for (std::size_t i = 0; i < std::min(list.size(), most_candidates); ++i) best.push_back(list[i].second);
    return best;
}

Plan plan_of(const Contraction& p, DType sum, int units) {
    Plan plan;
    plan.columns = count_of(p.column);
    plan.depth = count_of(p.inner);
    plan.batch = count_of(p.batch);
    if (p.rows == 0 || plan.columns == 0 || plan.batch == 0) return plan;
    plan.candidates = best_tiles(p, plan, sum, units);
    plan.tile = plan.candidates[0];
    plan.tile_count = tiles_of(p, plan.tile, plan.columns);
    plan.part = std::max<std::int64_t>(plan.depth, 1);
    // Too few tiles to keep the device busy: parts of the sum run beside each other.
    const std::int64_t wanted = 2 * std::int64_t{units}, running = plan.tile_count * plan.batch;
    constexpr std::int64_t least_part = 256;
    if (running >= wanted || plan.depth < 2 * least_part) return plan;
    const std::int64_t bytes = p.rows * plan.columns * plan.batch * size_of(sum);
    const std::int64_t most = std::min(plan.depth / least_part, partial_bytes / std::max<std::int64_t>(bytes, 1));
    const std::int64_t parts = std::min(ceil_div(wanted, running), most);
    if (parts < 2) return plan;
    plan.part = ceil_div(ceil_div(plan.depth, parts), tile_inner) * tile_inner;
    plan.parts = ceil_div(plan.depth, plan.part);
    return plan;
}

/// The digit that varies fastest.
const Digit& fastest(const InlineVector<Digit, 4>& digits) {
    std::size_t i = digits.size() - 1;
    while (i > 0 && digits[i].size == 1) --i;
    return digits[i];
}

/// The kernel's word `order`: along which index the neighbours of each operand lie, and whether there is a bias.
std::int32_t order_of(const Contraction& p) {
    const Digit &inner = fastest(p.inner), &column = fastest(p.column);
    const bool a = p.rows == 1 || (inner.size > 1 && std::abs(inner.first) <= std::abs(p.a_row));
    const bool b = column.size == 1 || (inner.size > 1 && std::abs(inner.second) < std::abs(column.first));
    const bool c = column.size == 1 || (p.rows > 1 && std::abs(p.c_row) < std::abs(column.second));
    return (a ? 1 : 0) + (b ? 2 : 0) + (c ? 4 : 0) + (p.bias ? 8 : 0);
}

/// How far an operand reaches from its start, all digits together.
template <class List, class Get> std::int64_t reach(const List& digits, const Get& stride) {
    std::int64_t sum = 0;
    for (const auto& d : digits) sum += std::abs(stride(d)) * std::max<std::int64_t>(d.size, 1);
    return sum;
}
bool is_wide(const Contraction& p, const Plan& plan) {
    constexpr std::int64_t limit = std::int64_t{1} << 30;
    const std::int64_t a = std::abs(p.a_start) + p.rows * std::abs(p.a_row) +
                           reach(p.inner, [](const Digit& d) { return d.first; }) +
                           reach(p.batch, [](const BatchDigit& d) { return d.a; });
    const std::int64_t b = std::abs(p.b_start) + reach(p.inner, [](const Digit& d) { return d.second; }) +
                           reach(p.column, [](const Digit& d) { return d.first; }) +
                           reach(p.batch, [](const BatchDigit& d) { return d.b; });
    const std::int64_t c = std::abs(p.c_start) + p.rows * std::abs(p.c_row) +
                           reach(p.column, [](const Digit& d) { return d.second; }) +
                           reach(p.batch, [](const BatchDigit& d) { return d.c; });
    const std::int64_t sums = p.rows * plan.columns * plan.batch * plan.parts;
    return std::max({a, b, c, sums, plan.groups_at_most() * 2}) >= limit;
}

void add_digits(Launch& launch, const InlineVector<Digit, 4>& digits) {
    Dims sizes, first, second, step;
    for (const Digit& d : digits) {
        sizes.push_back(d.size);
        first.push_back(d.first);
        second.push_back(d.second);
        step.push_back(d.step);
    }
    launch.layout(sizes, {first, second, step});
}
/// Kernels are compiled for 1, 2, 4, 8... digits of the batch.
std::int64_t batch_rank(const Contraction& p) {
    return static_cast<std::int64_t>(std::bit_ceil(std::max<std::size_t>(p.batch.size(), 1)));
}
void add_batch(Launch& launch, const Contraction& p) {
    const std::int64_t missing = batch_rank(p) - std::ssize(p.batch);
    Dims sizes(missing, 1), a(missing, 0), b(missing, 0), c(missing, 0), bias(missing, 0);
    for (const BatchDigit& d : p.batch) {
        sizes.push_back(d.size);
        a.push_back(d.a);
        b.push_back(d.b);
        c.push_back(d.c);
        bias.push_back(d.bias);
    }
    launch.layout(sizes, {a, b, c, bias});
}
void add_source(Launch& launch, const InlineVector<SourceAxis, 3>& axes) {
    Dims sizes, starts;
    for (const SourceAxis& s : axes) {
        sizes.push_back(s.size);
        starts.push_back(s.start);
    }
    launch.layout(sizes, {starts});
}

/// Constants that both kernels of the file take.
void add_constants(Launch& launch, const Contraction& p) {
    const DType sum = sum_type(p.c.dtype);
    launch.constant("C", read_type(p.c.dtype, p.c.dtype))
        .constant("ACC", sum)
        .constant("VECTOR_LENGTH", 16 / size_of(sum))
        .constant("BATCH_RANK", batch_rank(p))
        .constant("AXES", std::ssize(p.source));
}

/// What a kernel is given for a bias: c stands for none.
struct Bias {
    const View* view;
    std::int64_t row, column;  ///< steps
};
Bias bias_of(const Contraction& p) {
    const std::int64_t step = p.bias ? p.bias->stride(0) : 0;
    return {p.bias ? p.bias : &p.c, p.bias_place == BiasPlace::row ? step : 0,
            p.bias_place == BiasPlace::column ? step : 0};
}

/// Constants and arguments of the first stage; `sums` is where partial sums go, null where the results are whole.
void add_tiles(Launch& launch, const Contraction& p, const Plan& plan, const Tile& tile, void* sums) {
    const Bias bias = bias_of(p);
    add_constants(launch, p);
    launch.constant("A", read_type(p.a.dtype, p.c.dtype))
        .constant("B", read_type(p.b.dtype, p.c.dtype))
        .constant("RESULT", sums ? sum_type(p.c.dtype) : read_type(p.c.dtype, p.c.dtype))
        .constant("PARTS", sums != nullptr)
        .constant("BM", tile.rows)
        .constant("BN", tile.columns)
        .constant("BK", tile_inner)
        .constant("TM", tile.own_rows)
        .constant("TN", tile.own_columns);
    launch.buffer(p.a).buffer(p.b).buffer(*bias.view).buffer(sums ? sums : p.c.data);
    launch.size(p.rows).size(plan.columns).size(plan.depth).size(plan.part);
    launch.size(p.a_start).size(p.b_start).size(p.c_start).size(p.a_row).size(p.c_row);
    launch.size(bias.row).size(bias.column).value(order_of(p));
    add_batch(launch, p);
    add_digits(launch, p.inner);
    add_digits(launch, p.column);
    add_source(launch, p.source);
    launch.wide(is_wide(p, plan)).threads(tile.threads());
}

/// Contractions for which the same tile is expected to be the fastest. Every tile adds the products of a result in the
/// same order, so all give the same bits.
Tuning tuning_of(const Contraction& p, const Plan& plan) {
    const auto bucket = [](std::int64_t size) { return std::bit_width(static_cast<std::uint64_t>(size)); };
    Tuning tuning;
    tuning.family = "contraction";
    tuning.text = kernels::gpu_contraction.text;
    tuning.problem =
        fmt::format("{} {} {} rows {} columns {} depth {} batch {} axes {} order {} parts {}", name_of(p.a.dtype),
                    name_of(p.b.dtype), name_of(p.c.dtype), bucket(p.rows), bucket(plan.columns), bucket(plan.depth),
                    bucket(plan.batch), p.source.size(), order_of(p), bucket(plan.parts));
    tuning.operations = 2.0 * static_cast<double>(p.rows) * static_cast<double>(plan.columns) *
                        static_cast<double>(plan.depth) * static_cast<double>(plan.batch);
    for (const Tile& t : plan.candidates) tuning.candidates.push_back(fmt::format("{}x{}", t.rows, t.columns));
    return tuning;
}

void remark_tile(const Plan& plan, const Tile& tile, const Chosen& chosen) {
    if (!remarks()) return;
    *remarks() +=
        fmt::format("{}tile {}x{}{}{}", remarks()->empty() ? "" : "; ", tile.rows, tile.columns,
                    chosen.measured ? ", measured" : "", plan.parts > 1 ? fmt::format(", {} parts", plan.parts) : "");
}

}  // namespace

const char* contraction_why_not(const Contraction& problem) {
    double groups = 1.0 / (32 * 32);
    groups *= static_cast<double>(problem.rows + 31);
    for (const Digit& d : problem.column) groups *= static_cast<double>(d.size);
    for (const BatchDigit& d : problem.batch) groups *= static_cast<double>(std::max<std::int64_t>(d.size, 1)) * 32;
    return groups > static_cast<double>(most_groups) ? "more tiles than a grid has groups" : nullptr;
}

void contract(Backend& backend, const Contraction& p, std::string_view operation, const Where& where) {
    const DType sum = sum_type(p.c.dtype);
    const Plan plan = plan_of(p, sum, backend.gpu()->traits().units);
    if (plan.tile_count == 0 || plan.batch == 0) return;
    const Bias bias = bias_of(p);
    Ref<Storage> sums;
    if (plan.parts > 1) {
        const std::int64_t count = p.rows * plan.columns * plan.batch * plan.parts;
        sums = backend.allocate(count * size_of(sum), operation, where);
    }
    const auto run = [&](std::size_t candidate) {
        const Tile& tile = plan.candidates[candidate];
        Launch launch(backend, kernels::gpu_contraction, "contract", operation, where);
        add_tiles(launch, p, plan, tile, sums ? sums->data : nullptr);
        launch.run(tiles_of(p, tile, plan.columns) * plan.batch * plan.parts);
    };
    const Chosen chosen = choose(*backend.gpu(), tuning_of(p, plan), run);
    remark_tile(plan, plan.candidates[chosen.index], chosen);
    run(chosen.index);
    if (!sums) return;
    Launch last(backend, kernels::gpu_contraction, "finish", operation, where);
    add_constants(last, p);
    const std::int64_t count = p.rows * plan.columns * plan.batch;
    last.buffer(sums).buffer(*bias.view).buffer(p.c);
    last.size(count).size(p.rows).size(plan.columns).size(plan.parts).size(p.c_start).size(p.c_row);
    last.size(bias.row).size(bias.column).value(order_of(p));
    add_batch(last, p);
    add_digits(last, p.column);
    last.wide(is_wide(p, plan)).over(count);
}

void merge_batch(Contraction& problem) {
    InlineVector<BatchDigit, 2> merged;
    for (const BatchDigit& d : problem.batch) {
        if (d.size == 1) continue;
        if (!merged.empty()) {
            BatchDigit& outer = merged[merged.size() - 1];
            if (outer.a == d.a * d.size && outer.b == d.b * d.size && outer.c == d.c * d.size &&
                outer.bias == d.bias * d.size) {
                outer = {outer.size * d.size, d.a, d.b, d.c, d.bias};
                continue;
            }
        }
        merged.push_back(d);
    }
    if (merged.empty()) merged.push_back({});
    problem.batch = merged;
}

}  // namespace gpu
}  // namespace calor
