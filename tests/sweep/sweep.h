// A sweep of bad input over every public function that takes tensors or sizes. A row of a table says how a function is
// called well; cases.cpp derives from that the ways to call it badly (ranks, dtypes, shapes, empty axes, absurd
// numbers, indices out of range), and run.cpp checks what comes of each: either an Error of the catalogue that names
// the function, the caller's line and what came, or whole results and gradients that no uninitialised memory reached.
//
// A new function gets a row in the file of its topic. A new topic gets a file with a function that is declared and
// listed below.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../sanitized.h"
#include "calor/calor.h"

namespace calor::testing::sweep {

/// A tensor argument. `axes` has a letter for each axis, with the size that size_of_letter() gives: the same letter
/// is the same size in all arguments, and the sweep empties them together. A digit is a size of its own.
struct Input {
    std::string axes;
    DType dtype = f32;
    std::int64_t below = 0;  ///< above 0: indices from 0 to below - 1; the sweep writes bad ones into it
    bool optional = false;   ///< may be undefined
};
inline std::int64_t size_of_letter(char letter) {
    switch (letter) {
        case 'N': return 2;
        case 'C': return 4;
        case 'O': return 6;
        case 'H': return 6;
        case 'W': return 5;
        case 'D': return 3;
        case 'K': return 3;  // kernels
        case 'L': return 2;
        case 'P': return 4;  // positions: of H under K, of W under L
        case 'Q': return 4;
        case 'X': return 12;  // 6 taps, 2 axes
        case 'Y': return 6;
        default: return 3;
    }
}

/// What a call gets. Integers, reals and lists are in the row's own order.
struct Arguments {
    std::vector<Tensor> tensors;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    std::vector<Dims> lists;
};

/// Every case whose label starts with `label` must end in this error.
struct Must {
    std::string label;
    std::string code;
};

struct Row {
    std::string name;     ///< as include/calor declares it, without "calor::": "conv", "nn::mse"
    std::string variant;  ///< tells rows of one function apart
    std::vector<Input> tensors;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    std::vector<Dims> lists;
    std::function<std::vector<Tensor>(const Arguments&)> call;
    std::vector<Must> must = {};
    std::vector<std::string> operations = {};  ///< what errors may name beside the last part of `name`
    bool shows = true;                         ///< errors show what came (false: what follows from it)
};
using Table = std::vector<Row>;

/// One tensor of a case, before it is made.
struct TensorCase {
    Shape shape;
    DType dtype = f32;
    std::int64_t below = 0;
    bool undefined = false;
    bool planted = false;  ///< the last element is `plant`
    std::int64_t plant = 0;
};
/// One call: what is passed, and what of it an error has to show (one of these texts; none: anything).
struct Case {
    std::string label;
    std::vector<TensorCase> tensors;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    std::vector<Dims> lists;
    std::vector<std::string> shown;
    bool empty = false;  ///< an axis was emptied in all arguments that have it
};
/// The good call first.
std::vector<Case> cases_of(const Row& row);

/// Calls the function with the case and records a test failure for whatever is wrong.
void run(const Row& row, const Case& c);

// The tables, one a topic.
Table creation_rows();
Table tensor_rows();
Table elementwise_rows();
Table activation_rows();
Table reduce_rows();
Table view_rows();
Table index_rows();
Table product_rows();
Table spatial_rows();
Table window_rows();
Table sort_rows();
Table scan_rows();
Table resample_rows();
Table norm_rows();
Table random_rows();
Table loss_rows();
Table layer_rows();
Table autodiff_rows();
const Table& all_rows();

}  // namespace calor::testing::sweep
