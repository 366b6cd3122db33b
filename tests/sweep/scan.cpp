// scan.h and ctc.h.
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

using A = const Arguments&;
using R = std::vector<Tensor>;

std::vector<Must> axis(std::vector<Must> more) {
    for (const char* label : {"i0 = 2^", "i0 = m", "i0 = -7", "t0 rank 0"}) more.push_back({label, "axis/range"});
    more.push_back({"t0 undefined", "tensor/undefined"});
    return more;
}

Table losses() {
    const auto must = [](std::vector<Must> more) {
        for (const char* t : {"t0 undefined", "t1 undefined"}) more.push_back({t, "tensor/undefined"});
        for (const char* t : {"t0 dtype i", "t1 dtype f"}) more.push_back({t, "dtype/unsupported"});
        for (const char* t : {"t0 rank 0", "t0 rank 1"}) more.push_back({t, "shape/rank"});
        return more;
    };
    Table rows;
    using Loss = Tensor (*)(const Tensor&, const Tensor&, const CtcOptions&, const Where&);
    for (const auto& [name, f] : {std::pair<const char*, Loss>{"ctc_loss", ctc_loss},
                                  {"ctc_loss_of_log_probabilities", ctc_loss_of_log_probabilities}}) {
        rows.push_back(
            {name,
             "",
             {{"HNC"}, {"NL", i64, 3}},
             {3},
             {},
             {},
             [f = f](A a) -> R { return {f(a.tensors[0], a.tensors[1], {.blank = a.integers[0]}, Where::current())}; },
             must({{"t1 index past", "ctc/blank-label"},
                   {"t1 index", "index/range"},
                   {"i0 = -", "value/option"},
                   {"i0 = 2^", "value/option"},
                   {"i0 = m", "value/option"},
                   {"t1 axis 0 longer", "shape/mismatch"}})});
        rows.push_back({name,
                        "lengths",
                        {{"HNC"}, {"NL", i64, 3}, {"N", i64, 3}, {"N", i64, 3}},
                        {},
                        {},
                        {},
                        [f = f](A a) -> R {
                            return {f(a.tensors[0], a.tensors[1],
                                      {.input_lengths = a.tensors[2],
                                       .target_lengths = a.tensors[3],
                                       .blank = 3,
                                       .reduction = CtcReduction::none},
                                      Where::current())};
                        },
                        must({{"t2 index -1", "ctc/length"},
                              {"t2 index max", "ctc/length"},
                              {"t3 index min", "ctc/length"},
                              {"t3 index past", "ctc/length"},
                              {"t2 dtype f", "dtype/unsupported"}})});
        rows.push_back({name,
                        "numbers",
                        {{"HNC"}, {"NL", i64, 3}},
                        {6, 5, 2, 1},
                        {},
                        {},
                        [f = f](A a) -> R {
                            const auto& i = a.integers;
                            return {f(a.tensors[0], a.tensors[1],
                                      {.input_lengths = {i[0], i[1]}, .target_lengths = {i[2], i[3]}, .blank = 3},
                                      Where::current())};
                        },
                        must({{"i0 = -", "ctc/length"}, {"i0 = m", "ctc/length"}, {"i3 = 2^", "ctc/length"}})});
        rows.push_back({name,
                        "joined",
                        {{"HNC"}, {"O", i64, 3}},
                        {2, 4},
                        {},
                        {},
                        [f = f](A a) -> R {
                            return {
                                f(a.tensors[0], a.tensors[1],
                                  {.target_lengths = {a.integers[0], a.integers[1]}, .blank = 3, .zero_infinity = true},
                                  Where::current())};
                        },
                        must({{"i0 = -1", "ctc/length"}, {"t1 index past", "ctc/blank-label"}})});
    }
    return rows;
}

}  // namespace

Table scan_rows() {
    using Scan = Tensor (*)(const Tensor&, std::int64_t, const ScanOptions&, const Where&);
    Table rows = losses();
    for (Row& row : rows) row.shows = row.variant != "joined";  // sums of lengths
    for (const auto& [name, f] :
         {std::pair<const char*, Scan>{"cumsum", cumsum}, {"cumprod", cumprod}, {"logcumsumexp", logcumsumexp}}) {
        for (const bool exclusive : {false, true}) {
            rows.push_back({name,
                            exclusive ? "exclusive" : "",
                            {{"NCH"}},
                            {1},
                            {},
                            {},
                            [f = f, exclusive](A a) -> R {
                                return {f(a.tensors[0], a.integers[0], {.exclusive = exclusive}, Where::current())};
                            },
                            axis({})});
        }
    }
    using Extreme = RunningExtreme (*)(const Tensor&, std::int64_t, bool, const Where&);
    for (const auto& [name, f] : {std::pair<const char*, Extreme>{"cummax", cummax}, {"cummin", cummin}}) {
        rows.push_back({name,
                        "",
                        {{"NCH"}},
                        {1},
                        {},
                        {},
                        [f = f](A a) -> R {
                            const RunningExtreme result = f(a.tensors[0], a.integers[0], false, Where::current());
                            return {result.values, result.indices};
                        },
                        axis({})});
    }
    rows.push_back({"linear_recurrence",
                    "",
                    {{"NCH"}, {"NCH"}},
                    {1},
                    {},
                    {},
                    [](A a) -> R { return {linear_recurrence(a.tensors[0], a.tensors[1], a.integers[0])}; },
                    {{"t0 undefined", "tensor/undefined"},
                     {"t1 undefined", "tensor/undefined"},
                     {"i0 = 2^", "axis/range"},
                     {"i0 = m", "axis/range"},
                     {"t1 axis 0 longer", "shape/mismatch"},
                     {"t1 dtype f64", "dtype/mismatch"}}});
    return rows;
}

}  // namespace calor::testing::sweep
