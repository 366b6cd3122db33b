#include "ops/resample/table.h"

#include <algorithm>

namespace calor::ops::resample {

void Table::next() {
    // Zeros at the border of a filter's support read nothing.
    const auto from = static_cast<std::size_t>(start.back());
    std::size_t to = from;
    for (std::size_t k = from; k < index.size(); ++k) {
        if (weight[k] == 0) continue;
        index[to] = index[k];
        weight[to++] = weight[k];
    }
    index.resize(to);
    weight.resize(to);
    start.push_back(static_cast<std::int32_t>(to));
}

void Table::finish() {
    weight_f32.assign(weight.begin(), weight.end());
    divisors_f32.assign(divisors.begin(), divisors.end());
    selects_ = divisor == 1 && divisors.empty() && taps() == outputs;
    ascending_ = true;
    bool dense = true;
    std::int32_t first = 0, last = 0;
    for (std::size_t i = 0; i + 1 < start.size(); ++i) {
        const auto from = static_cast<std::size_t>(start[i]), to = static_cast<std::size_t>(start[i + 1]);
        most_taps = std::max(most_taps, static_cast<std::int64_t>(to - from));
        selects_ = selects_ && to - from == 1 && weight[from] == 1;
        if (from == to) continue;
        const std::int32_t l = index[from], h = index[to - 1];
        ascending_ = ascending_ && l >= first && h >= last &&
                     std::is_sorted(index.begin() + start[i], index.begin() + start[i + 1]);
        first = l;
        last = h;
        const auto [low, high] = std::minmax_element(index.begin() + start[i], index.begin() + start[i + 1]);
        most_span = std::max<std::int64_t>(most_span, *high - *low + 1);
        dense = dense && h - l + 1 == static_cast<std::int32_t>(to - from);
    }
    long_sums = dense && ascending_ && taps() >= 32 * outputs;
    make_blocks();
}

void Table::make_blocks() {
    const std::int64_t count = outputs / 8;
    if (count == 0 || inputs < 16 || most_taps > 8) return;
    std::int64_t window = 8, found = 0;
    std::vector<std::int32_t> bases;
    for (std::int64_t b = 0; b < count; ++b) {
        const auto from = static_cast<std::size_t>(b * 8);
        const std::int32_t n = start[from + 1] - start[from];
        bool even = n > 0;
        for (std::size_t i = from; i < from + 8; ++i) even = even && start[i + 1] - start[i] == n;
        const auto [low, high] = even ? reach(b * 8, b * 8 + 8) : std::pair<std::int64_t, std::int64_t>(0, 17);
        const auto last = static_cast<std::int64_t>(inputs);
        if (high - std::min(low, last - 16) > 16) {
            bases.push_back(-1);
            continue;
        }
        if (high - std::min(low, last - 8) > 8) window = 16;
        bases.push_back(static_cast<std::int32_t>(low));
        ++found;
    }
    if (found * 4 < count * 3) return;
    blocks.window = window;
    blocks.start.push_back(0);
    for (std::int64_t b = 0; b < count; ++b) {
        const auto at = static_cast<std::size_t>(b), from = at * 8;
        std::int32_t base = bases[at];
        if (base >= 0) {
            base = std::min(base, static_cast<std::int32_t>(inputs - window));
            for (std::int32_t k = 0; k < start[from + 1] - start[from]; ++k) {
                for (std::size_t i = from; i < from + 8; ++i) {
                    const auto entry = static_cast<std::size_t>(start[i] + k);
                    blocks.lane.push_back(index[entry] - base);
                    blocks.weight.push_back(static_cast<float>(weight[entry]));
                }
            }
        }
        blocks.base.push_back(base);
        blocks.start.push_back(static_cast<std::int32_t>(blocks.lane.size()));
    }
}

bool Table::identity() const {
    if (inputs != outputs || !selects_) return false;
    for (std::size_t i = 0; i < index.size(); ++i) {
        if (index[i] != static_cast<std::int32_t>(i)) return false;
    }
    return true;
}

std::shared_ptr<const Table> Table::transposed() const {
    std::call_once(once_, [&] {
        auto t = std::make_shared<Table>(outputs, inputs);
        const auto n = static_cast<std::size_t>(inputs);
        t->start.assign(n + 1, 0);
        for (const std::int32_t i : index) ++t->start[static_cast<std::size_t>(i) + 1];
        for (std::size_t i = 0; i < n; ++i) t->start[i + 1] += t->start[i];
        t->index.resize(index.size());
        t->weight.resize(index.size());
        std::vector<std::int32_t> at(t->start.begin(), t->start.end() - 1);
        for (std::size_t o = 0; o + 1 < start.size(); ++o) {
            for (auto k = static_cast<std::size_t>(start[o]); k < static_cast<std::size_t>(start[o + 1]); ++k) {
                const auto to = static_cast<std::size_t>(at[static_cast<std::size_t>(index[k])]++);
                t->index[to] = static_cast<std::int32_t>(o);
                t->weight[to] = weight[k] / divisor / (divisors.empty() ? 1 : divisors[o]);
            }
        }
        t->finish();
        transposed_ = std::move(t);
    });
    return transposed_;
}

}  // namespace calor::ops::resample
