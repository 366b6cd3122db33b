// The plan of a call: axes in the order of memory, joined where nothing happens between them; the order of passes that
// costs least; and tiles of outputs whose intermediate results stay in the second cache. A tile is computed by one
// thread from its inputs alone, so neighbouring tiles compute some intermediate results twice. Neither the tiles nor
// the number of threads change a result's bits.
#pragma once

#include "ops/resample/resample.h"

namespace calor::ops::resample {

struct PlanAxis {
    std::int64_t in = 1, out = 1;            ///< sizes
    std::int64_t in_step = 1, out_step = 1;  ///< strides, in elements
    const Table* table = nullptr;            ///< null: as it is
    std::int64_t logical = 0;                ///< number among the tensor's axes (of the first one that was joined)
    std::int64_t tile = 1;                   ///< outputs
    std::int64_t tiles() const { return (out + tile - 1) / tile; }
    /// Inputs that tile number t reads.
    std::pair<std::int64_t, std::int64_t> inputs(std::int64_t t) const {
        const std::int64_t begin = t * tile, end = std::min(out, begin + tile);
        return table ? table->reach(begin, end) : std::pair(begin, end);
    }
    /// Inputs of the largest tile.
    std::int64_t most_inputs() const;
};

struct Plan {
    Plan(const graph::Call& call, std::int64_t compute_size);

    std::vector<PlanAxis> axes;       ///< outermost first
    std::vector<std::size_t> passes;  ///< axes with tables, in the order in which they are applied
    bool staged = false;              ///< the innermost axis of the input has gaps: tiles are copied first
    double divisor = 1;               ///< of the last pass
    std::int64_t scratch = 0;         ///< elements of the larger intermediate result of a tile, each of two
    std::int64_t staging = 0;         ///< elements of a staged tile

    std::int64_t items() const {
        std::int64_t n = 1;
        for (const PlanAxis& a : axes) n *= a.tiles();
        return n;
    }

private:
    void join_axes(const graph::Call& call);
    void order_passes(bool fixed);
    void choose_tiles(std::int64_t compute_size);
    std::int64_t footprint() const;
};

}  // namespace calor::ops::resample
