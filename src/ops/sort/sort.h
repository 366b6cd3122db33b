// What sort.cpp and its implementations share.
#pragma once

#include "ops/support.h"

namespace calor::ops {

/// The first `keep` entries of the sorted order along `axis`.
struct SortAttributes {
    std::int64_t axis = 0, keep = 0;
    bool descending = false;
    friend bool operator==(const SortAttributes&, const SortAttributes&) = default;
};

void sort_keys(const graph::Call& call);
void sort_reference(const graph::Call& call);
std::span<const graph::Implementation> sort_on_gpu();

}  // namespace calor::ops
