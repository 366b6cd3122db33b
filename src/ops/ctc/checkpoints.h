// Walking a chain of states backward while few of them are kept (binomial checkpointing, Griewank 1992): state i + 1
// follows from state i, and states are wanted from the last to the first. With c columns for kept states no state is
// computed more than r times in a chain of up to C(c + r + 1, r) - 1 states; so twice with sqrt(2 n) columns, and three
// or four times with much fewer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace calor::ops {

/// The longest chain behind a kept state that `columns` more columns let walk back with at most `sweeps` computations
/// of a state, or `enough` when that is less.
inline std::int64_t checkpoint_reach(std::int64_t columns, std::int64_t sweeps, std::int64_t enough) {
    if (columns == 0) return std::min(sweeps, enough);
    std::int64_t ways = 1;  // C(columns + 1 + i, i)
    for (std::int64_t i = 1; i <= sweeps; ++i) {
        if (ways >= (enough / (columns + 1) + 1) * i) return enough;  // before it overflows
        ways += ways * (columns + 1) / i;
    }
    return std::min(ways - 1, enough);
}

/// How far behind the last kept state the next one is kept, when n states are walked back with `columns` > 0 columns.
inline std::int64_t next_checkpoint(std::int64_t n, std::int64_t columns) {
    std::int64_t sweeps = 1;
    while (checkpoint_reach(columns, sweeps, n) < n) ++sweeps;
    return 1 + std::min(checkpoint_reach(columns, sweeps - 1, n), n - 1 - checkpoint_reach(columns - 1, sweeps - 1, n));
}

/// Calls visit(state, column) for states n ... 1; state 0 stands in column 0. step(state, from, to) computes state + 1
/// in column `to` from `state` in column `from`. `columns` >= 1 of them keep states; two more are for work.
template <class Step, class Visit>
void walk_back(std::int64_t n, std::int64_t columns, const Step& step, const Visit& visit) {
    std::vector<std::int64_t> kept{0};  // the state in each column
    const auto run = [&](std::int64_t count, std::int64_t into) {
        std::int64_t from = std::ssize(kept) - 1;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t to = i + 1 == count ? into : columns + i % 2;
            step(kept.back() + i, from, to);
            from = to;
        }
    };
    for (std::int64_t state = n; state > 0; --state) {
        while (kept.back() < state && std::ssize(kept) < columns) {
            const std::int64_t count = next_checkpoint(state - kept.back(), columns - std::ssize(kept));
            run(count, std::ssize(kept));
            kept.push_back(kept.back() + count);
        }
        if (kept.back() == state) {
            visit(state, std::ssize(kept) - 1);
            kept.pop_back();
        } else {
            const std::int64_t count = state - kept.back(), into = columns + (count - 1) % 2;
            run(count, into);
            visit(state, into);
        }
    }
}

}  // namespace calor::ops
