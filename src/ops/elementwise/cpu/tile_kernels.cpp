// Joins the tables of the kernel files into one map, once.
#include "ops/elementwise/cpu/tile_kernels.h"

#include <hwy/targets.h>

#include <unordered_map>

#include "ops/elementwise/cpu/op_rows.h"

namespace calor {
namespace cpu {
namespace {

using Table = std::unordered_map<std::string_view, OpRow>;

void add_rows(Table& table, OpRows rows) {
    for (const OpRow& row : rows) {
        OpRow& joined = table.try_emplace(row.name, OpRow{row.name, {}}).first->second;
        for (std::size_t i = 0; i < row.kernels.size(); ++i) {
            if (row.kernels[i] != nullptr) joined.kernels[i] = row.kernels[i];
        }
    }
}

Table make_table(std::int64_t targets) {
    Table table;
    add_rows(table, scalar_rows());  // first: vector loops of the same operation take its place
    add_rows(table, integer_division_rows());
    add_rows(table, integer_rows(targets));
    add_rows(table, comparison_rows(targets));
    add_rows(table, float_rows(targets));
    add_rows(table, trigonometric_rows(targets));
    add_rows(table, logarithmic_rows(targets));
    add_rows(table, exponential_rows(targets));
    add_rows(table, gaussian_rows(targets));
    return table;
}

const Table& best_table() {
    static const Table table = make_table(hwy::SupportedTargets());
    return table;
}

TileKernel find(const Table& table, std::string_view name, DType compute) {
    const auto at = table.find(name);
    return at == table.end() ? nullptr : at->second.kernels[static_cast<std::size_t>(compute)];
}

}  // namespace

TileKernel find_tile_kernel_for(std::int64_t targets, std::string_view name, DType compute) {
    return find(make_table(targets), name, compute);
}

std::vector<std::string_view> tile_kernel_names() {
    std::vector<std::string_view> names;
    for (const auto& [name, row] : best_table()) names.push_back(name);
    return names;
}

}  // namespace cpu

TileKernel find_tile_kernel(std::string_view name, DType compute) {
    return cpu::find(cpu::best_table(), name, compute);
}

}  // namespace calor
