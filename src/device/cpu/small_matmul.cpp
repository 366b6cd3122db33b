// Few columns: sums along the inner axis. Otherwise the register tiles of the direct convolution: rows are its pixels,
// the inner axis its taps; b is packed into panels. a and c are used where they lie.
#include "device/cpu/small_matmul.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "device/cpu/direct_conv_kernels.h"
#include "device/cpu/pack.h"
#include "device/cpu/parallel.h"
#include "device/cpu/scratch.h"
#include "device/cpu/small_matmul_kernels.h"
#include "device/cpu/transpose.h"

namespace calor::cpu {
namespace {

constexpr std::int64_t most_rows = 512, most_inner = 512, most_columns = 64, most_products = 1 << 18;
constexpr std::int64_t products_of_thread = 1 << 17;

/// The last two axes of an array.
struct Matrix {
    explicit Matrix(const View& v)
        : rows(v.size(v.rank() - 2)),
          columns(v.size(v.rank() - 1)),
          row(v.stride(v.rank() - 2)),
          column(v.stride(v.rank() - 1)) {}
    std::int64_t rows, columns, row, column;
};

constexpr std::int64_t least_rows = 4;  // of a call of the kernel

/// Whether vectors along the inner axis waste less than vectors along the columns, of which the last one is partly
/// empty.
bool suits_dots(const Matrix& a, const Matrix& b, const Matrix& c) {
    const std::int64_t lanes = dot_kernels().lanes;
    if (a.column != 1 || (b.row != 1 && b.column != 1) || c.rows < least_rows || a.columns % lanes != 0) return false;
    return 4 * c.columns <= 3 * lanes * ((c.columns + lanes - 1) / lanes);
}

void run_dots(const Matrix& left, const Matrix& right, const Matrix& out, const View& a, const View& b,
              const View* bias, const View& c) {
    const std::int64_t k = left.columns, n = out.columns;
    const bool turn = right.row != 1;
    const Scratch turned(turn ? n * k * size_of(f32) : 0);
    if (turn) transpose(b.as<const float>(), right.row, turned.floats(), k, k, n);
    Dots d{};
    d.a = a.as<const float>();
    d.b = turn ? turned.floats() : b.as<const float>();
    d.bias = bias != nullptr ? bias->as<const float>() : nullptr;
    d.c = c.as<float>();
    d.a_row = left.row;
    d.b_column = turn ? k : right.column;
    d.c_row = out.row;
    d.columns = n;
    d.inner = k;
    const std::int64_t grain = std::max<std::int64_t>(1, products_of_thread / (least_rows * n * k));
    parallel_for(out.rows / least_rows, grain, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t past = end == out.rows / least_rows ? out.rows : end * least_rows;
        dot_kernels().dots(d, begin * least_rows, past);
    });
}

}  // namespace

const char* small_matmul_why_not(const View& a, const View& b, const View* bias, const View& c) {
    if (a.dtype != f32 || b.dtype != f32 || c.dtype != f32) return "dtypes other than f32";
    for (const View* v : {&a, &b, &c})
        for (std::int64_t i = 0; i + 2 < v->rank(); ++i)
            if (v->size(i) != 1) return "several matrices";
    const Matrix left(a), right(b), out(c);
    if (out.rows > most_rows || left.columns > most_inner || out.columns > most_columns) return "large matrices";
    if (out.rows * left.columns * out.columns > most_products) return "large matrices";
    if (out.rows == 0 || out.columns == 0 || left.columns == 0) return "an axis of size 0";
    if (out.column != 1 && out.columns != 1) return "columns of the result that are not adjacent";
    constexpr std::int64_t reach = std::int64_t{1} << 20;  // distances stay below 2^31 elements
    for (const Matrix* m : {&left, &out})
        if (std::abs(m->row) > reach || std::abs(m->column) > reach) return "rows far apart";
    if (bias != nullptr && (bias->dtype != f32 || bias->stride(0) != 1)) return "a bias that is not adjacent f32";
    return nullptr;
}

void small_matmul(const View& a, const View& b, const View* bias, const View& c) {
    const Matrix left(a), right(b), out(c);
    if (suits_dots(left, right, out)) return run_dots(left, right, out, a, b, bias, c);
    const std::int64_t m = out.rows, n = out.columns, k = left.columns, width = direct::kernels().width;
    const std::int64_t panels = (n + width - 1) / width;
    const Scratch memory((panels * k * width + panels * width) * size_of(f32));
    float* to = memory.floats();
    for (std::int64_t first = 0; first < n; first += width, to += k * width) {
        const float* const from = b.as<const float>() + first * right.column;
        const std::int64_t some = std::min(width, n - first);
        if (right.row == 1) {
            if (some < width) std::fill(to, to + k * width, 0.0F);
            transpose(from, right.column, to, width, some, k);
        } else if (right.column == 1) {
            // Whole rows of the panel while that stays inside of b: what follows a short row is not looked at.
            const std::int64_t last = (k - 1) * right.row + some;
            for (std::int64_t p = 0; p < k; ++p) {
                const float* const row = from + p * right.row;
                float* const out = to + p * width;
                if (right.row > 0 && p * right.row + 64 <= last) {
                    for (std::int64_t j = 0; j < width; j += 8) std::memcpy(out + j, row + j, 8 * sizeof(float));
                } else {
                    std::fill(std::copy_n(row, some, out), out + width, 0.0F);
                }
            }
        } else {
            for (std::int64_t p = 0; p < k; ++p) {
                for (std::int64_t j = 0; j < width; ++j)
                    to[p * width + j] = j < some ? from[p * right.row + j * right.column] : 0.0F;
            }
        }
    }
    if (bias != nullptr) {
        std::fill(to, to + panels * width, 0.0F);
        std::copy_n(bias->as<const float>(), n, to);
    }
    std::array<std::int32_t, most_rows> in_at, out_at;  // NOLINT: filled as far as they are used
    std::array<std::int32_t, most_inner> tap_at;        // NOLINT
    for (std::int64_t i = 0; i < m; ++i) {
        in_at[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * left.row);
        out_at[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * out.row);
    }
    for (std::int64_t p = 0; p < k; ++p)
        tap_at[static_cast<std::size_t>(p)] = static_cast<std::int32_t>(p * left.column);
    direct::Gather g{};
    g.in = a.as<const float>();
    g.out = c.as<float>();
    g.in_at = in_at.data();
    g.out_at = out_at.data();
    g.pixels = m;
    g.tap_at = tap_at.data();
    g.taps = k;
    g.panels = memory.floats();
    g.bias = bias != nullptr ? to : nullptr;
    g.outputs = n;
    constexpr std::int64_t tile = 6;
    const std::int64_t tiles = (m + tile - 1) / tile, work = tile * k * panels * width;
    parallel_for(tiles, std::max<std::int64_t>(1, products_of_thread / work),
                 [&](std::int64_t begin, std::int64_t end) {
                     direct::kernels().gather(g, begin * tile, std::min(m, end * tile));
                 });
}

}  // namespace calor::cpu
