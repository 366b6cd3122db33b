// Sums of products on a GPU: matrix products and the three roles of a convolution are one kernel, contraction.kernel,
//     c[z, row, column] = bias + sum over inner of a[z, row, inner] b[z, inner, column]
// where numbers of columns and inner entries split into digits with strides of their own, and the second operand may be
// read through windows. A caller describes its problem in these terms; tiles and the number of partial sums are chosen
// here. The same problem on the same device gives the same bits.
#pragma once

#include <string_view>

#include "core/inline_vector.h"
#include "device/device.h"

namespace calor::gpu {

/// One digit of a column number or an inner number: entries, and how far one step leads in the two operands (inner: a
/// and b, column: b and c) and along the digit's axis of the source.
struct Digit {
    std::int64_t size = 1, first = 0, second = 0, step = 0;
};
/// One digit of a product's number in the batch.
struct BatchDigit {
    std::int64_t size = 1, a = 0, b = 0, c = 0, bias = 0;
};
/// An axis that windows slide along. Entry `start` + steps is read if it lies in [0, size); b_start must include
/// start times the axis' stride.
struct SourceAxis {
    std::int64_t size = 1, start = 0;
};

enum class BiasPlace : std::uint8_t { none, row, column };

struct Contraction {
    View a, b, c;                ///< dtypes and memory; shapes only tell how far they reach
    const View* bias = nullptr;  ///< a vector of c's dtype
    BiasPlace bias_place = BiasPlace::none;
    std::int64_t rows = 1, a_row = 0, c_row = 0;
    InlineVector<Digit, 4> inner, column;  ///< 2 more than source axes; digit 1 + s is axis s. The last varies fastest
    InlineVector<BatchDigit, 2> batch;
    InlineVector<SourceAxis, 3> source;
    std::int64_t a_start = 0, b_start = 0, c_start = 0;  ///< elements from the views' data
};

/// Null when contract() can run it, else why not.
const char* contraction_why_not(const Contraction& problem);
/// Results are complete: no inner entries give the bias or zeros.
void contract(Backend& backend, const Contraction& problem, std::string_view operation, const Where& where);

/// Products that differ in their batch digits only are merged where strides allow it; at least one digit stays.
void merge_batch(Contraction& problem);

}  // namespace calor::gpu
