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

std::int32_t Table::window_of(std::int64_t first, std::int64_t window) const {
    const auto [low, high] = reach(first, first + 8);
    const std::int64_t base = std::min(low, inputs - window);
    return high - base > window ? -1 : static_cast<std::int32_t>(base);
}

std::int32_t Table::taps_of_block(std::int64_t first, std::int64_t count) const {
    std::int32_t most = 0;
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + count); ++i) {
        most = std::max(most, start[i + 1] - start[i]);
    }
    return most;
}

void Table::make_blocks() {
    if (outputs < 8 || inputs < 16 || most_taps > 8) return;
    std::int64_t window = 8, found = 0;
    std::vector<std::int32_t> firsts;
    for (std::int64_t j = 0; j < outputs; j += 8) {
        firsts.push_back(static_cast<std::int32_t>(std::min(j, outputs - 8)));
        if (window_of(firsts.back(), 16) < 0) continue;
        if (window_of(firsts.back(), 8) < 0) window = 16;
        ++found;
    }
    if (found * 4 < std::ssize(firsts) * 3) return;
    blocks.window = window;
    blocks.start.push_back(0);
    for (const std::int32_t first : firsts) {
        const std::int32_t base = window_of(first, window);
        const std::int32_t taps = base < 0 ? 0 : taps_of_block(first, 8);
        bool uneven = false;
        for (std::int32_t k = 0; k < taps; ++k) {
            for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first) + 8; ++i) {
                const auto entry = static_cast<std::size_t>(start[i] + k);
                const bool has = start[i] + k < start[i + 1];
                uneven = uneven || !has;
                blocks.lane.push_back(has ? index[entry] - base : -1);
                blocks.weight.push_back(has ? weight_f32[entry] : -0.0F);
                if (!selects_) continue;
                blocks.bytes.push_back(static_cast<std::uint8_t>(2 * (index[entry] - base)));
                blocks.bytes.push_back(static_cast<std::uint8_t>(2 * (index[entry] - base) + 1));
            }
        }
        blocks.first.push_back(first);
        blocks.base.push_back(base);
        blocks.uneven.push_back(uneven ? 1 : 0);
        blocks.start.push_back(static_cast<std::int32_t>(blocks.lane.size()));
    }
    if (outputs >= 16 && found == std::ssize(firsts)) make_pairs();
}

void Table::make_pairs() {
    const std::int64_t window = blocks.window;
    PairBlocks made;
    made.start.push_back(0);
    for (std::int64_t j = 0; j < outputs; j += 16) {
        const std::int64_t first = std::min(j, outputs - 16);
        const std::int32_t base[2] = {window_of(first, window), window_of(first + 8, window)};
        if (base[0] < 0 || base[1] < 0) return;
        const std::int32_t taps = taps_of_block(first, 16);
        const auto each = [&](std::int32_t k, std::int64_t odd, const auto& body) {
            for (std::int64_t i = odd; i < 16; i += 2) {
                const auto output = static_cast<std::size_t>(first + i);
                const auto entry = static_cast<std::size_t>(start[output] + k);
                body(entry, start[output] + k < start[output + 1], base[i / 8]);
            }
        };
        for (std::int32_t k = 0; k < taps; k += 2) {
            for (std::int64_t odd = 0; odd < 2; ++odd) {
                std::vector<std::uint8_t> places(32, 0xff);  // beyond every window
                for (std::int32_t tap = 0; tap < 2; ++tap) {
                    std::size_t to = static_cast<std::size_t>(tap) * 2;
                    each(k + tap, odd, [&](std::size_t entry, bool has, std::int32_t from) {
                        made.weight.push_back(has ? weight_f32[entry] : -0.0F);
                        if (has) places[to] = static_cast<std::uint8_t>(2 * (index[entry] - from));
                        if (has) places[to + 1] = static_cast<std::uint8_t>(places[to] + 1);
                        to += 4;
                    });
                }
                made.places.insert(made.places.end(), places.begin(), places.end());
            }
        }
        made.first.push_back(static_cast<std::int32_t>(first));
        made.base.insert(made.base.end(), base, base + 2);
        made.start.push_back(static_cast<std::int32_t>(made.weight.size() / 32));
    }
    pairs = std::move(made);
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
