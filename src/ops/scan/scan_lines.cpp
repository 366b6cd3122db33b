// The fast scans: lines in pieces, or bands of neighbouring lines. Operands that lie densely in the direction of travel
// in their wide type are scanned where they lie; others go through buffers that stay in the first-level cache.
#include <algorithm>
#include <cstring>
#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"
#include "ops/scan/cpu/scan_kernels.h"
#include "ops/widen.h"

namespace calor::ops::scan {
namespace {

constexpr std::int64_t band_rows = 64;
constexpr std::int64_t thread_elements = 8192;  // a thread gets at least so many
constexpr int output = 2;                       // operands: x, b, y

/// One operand as the walk sees it.
struct Operand {
    View view;
    std::int64_t step = 0;    ///< from one element to the next in the direction of travel
    std::int64_t start = 0;   ///< of the first element of the line in that direction, beside the line's offset
    std::int64_t column = 0;  ///< bands: from one line to the next
};

class Walk {
public:
    explicit Walk(const graph::Call& call) : a_(call.attrs<Attributes>()) {
        const View& y = call.outputs[0];
        dtype_ = y.dtype;
        wide_ = a_.kind == Kind::sum && is_half(dtype_) ? dtype_ : wide_type(dtype_);
        converted_ = size_of(wide_) != size_of(dtype_);
        count_ = y.size(a_.axis);
        lines_ = y.count() / std::max<std::int64_t>(1, count_);
        two_ = call.inputs.size() > 1;
        operands_[0] = operand(call.inputs[0]);
        operands_[1] = operand(call.inputs[two_ ? 1 : 0]);
        operands_[output] = operand(y);
        kernels_ = find_kernels(a_.kind, a_.lag, wide_);
        size_ = size_of(dtype_);
        wide_size_ = size_of(wide_);
        if (converted_) {
            widen_ = cpu::find_convert(dtype_, wide_);
            narrow_ = cpu::find_convert(wide_, dtype_);
        }
        scanned_ = count_;
        if (a_.exclusive && count_ > 0) {  // the results move one further, in front of them stands that of nothing
            --scanned_;
            first_ = operands_[output].start;
            operands_[output].start += operands_[output].step;
        }
        find_band();
    }

    void run() {
        if (lines_ == 0 || count_ == 0) return;
        if (a_.exclusive) write_first();
        if (scanned_ == 0) return;
        if (width_ > 0) return run_bands();
        const std::int64_t pieces = (scanned_ + chunk - 1) / chunk;
        if (a_.kind == Kind::sum && lines_ < thread_count() && pieces > 1) return run_split(pieces);
        cpu::parallel_for(lines_, std::max<std::int64_t>(1, thread_elements / count_),
                          [&](std::int64_t begin, std::int64_t end) {
                              Buffers buffers(*this, chunk);
                              for (std::int64_t line = begin; line < end; ++line) {
                                  State state = start_of(a_.kind);
                                  for (std::int64_t p = 0; p < pieces; ++p) piece(buffers, line, p, state, true);
                              }
                          });
    }

private:
    /// Room for a piece or a band of every operand, as stored and in the wide type.
    struct Buffers {
        Buffers(const Walk& walk, std::int64_t count) {
            for (int o = 0; o <= output; ++o) {
                stored[o].resize(static_cast<std::size_t>(count * walk.size_));
                if (walk.converted_) wide[o].resize(static_cast<std::size_t>(count * walk.wide_size_));
            }
        }
        std::vector<std::byte> stored[output + 1], wide[output + 1];
    };

    Operand operand(const View& v) const {
        Operand o{v, v.stride(a_.axis), 0, 0};
        if (a_.reverse) {
            o.start = std::max<std::int64_t>(0, count_ - 1) * o.step;
            o.step = -o.step;
        }
        return o;
    }

    bool reads(int o) const { return o == 0 || (o == 1 && two_); }

    /// The axes behind the scanned one, as far as all operands run through them evenly: the columns of a band.
    void find_band() {
        const View& y = operands_[output].view;
        std::int64_t a = y.rank() - 1, inner = 1;
        for (; a > a_.axis; --a) {
            if (y.size(a) == 1) continue;
            bool even = true;
            for (Operand& o : operands_) {
                if (inner == 1) o.column = o.view.stride(a);
                even = even && o.view.stride(a) == o.column * inner;
            }
            if (!even) break;
            inner *= y.size(a);
        }
        if (inner >= 8) {
            inner_ = inner;
            width_ = std::min(inner, most_columns);
        }
    }

    /// Address of an element of a line, `index` in the direction of travel.
    std::byte* at(int o, std::int64_t line, std::int64_t index) const {
        const Operand& p = operands_[o];
        const std::int64_t offset = LineOffsets(p.view, a_.axis)(line) + p.start + index * p.step;
        return p.view.as<std::byte>() + offset * size_;
    }

    /// 1 or -1 when all operands lie densely in one direction, else 0.
    std::int64_t common_step() const {
        const std::int64_t step = operands_[output].step;
        if (step != 1 && step != -1) return 0;
        return operands_[0].step == step && operands_[1].step == step ? step : 0;
    }

    /// Scans piece `p` of a line; without `write` only the state moves on.
    void piece(Buffers& buffers, std::int64_t line, std::int64_t p, State& state, bool write) const {
        const std::int64_t first = p * chunk, n = std::min(chunk, scanned_ - first), common = common_step();
        const std::int64_t step = common != 0 ? common : 1, back = step < 0 ? n - 1 : 0;  // from the lowest address
        std::byte* in_wide[output + 1] = {};
        for (int o = 0; o <= output; ++o) {
            if (o != output && !reads(o)) continue;
            std::byte* lowest = common != 0 ? at(o, line, first) - back * size_ : buffers.stored[o].data();
            if (o != output && common == 0) cpu::gather(lowest, at(o, line, first), operands_[o].step, size_, n);
            in_wide[o] = lowest;
            if (converted_) {
                in_wide[o] = buffers.wide[o].data();
                const void* from = lowest;
                if (o != output) widen_(&from, in_wide[o], n, nullptr);
            }
        }
        const auto place = [&](int o) { return in_wide[o] ? in_wide[o] + back * wide_size_ : nullptr; };
        kernels_.piece(place(0), place(1), write ? place(output) : nullptr, n, step, state);
        if (!write) return;
        std::byte* result = common != 0 ? at(output, line, first) - back * size_ : buffers.stored[output].data();
        if (converted_) {
            const void* from = in_wide[output];
            narrow_(&from, result, n, nullptr);
        }
        if (common == 0) cpu::scatter(at(output, line, first), operands_[output].step, result, size_, n);
    }

    /// Few long lines: the sums of all pieces first, then every piece with what stands before it. The same additions
    /// as piece after piece, so the same bits.
    void run_split(std::int64_t pieces) const {
        std::vector<State> states(static_cast<std::size_t>(lines_ * pieces));
        const auto each = [&](bool write) {
            cpu::parallel_for(lines_ * pieces, thread_elements / chunk, [&](std::int64_t begin, std::int64_t end) {
                Buffers buffers(*this, chunk);
                for (std::int64_t i = begin; i < end; ++i)
                    piece(buffers, i / pieces, i % pieces, states[static_cast<std::size_t>(i)], write);
            });
        };
        each(false);
        for (std::int64_t line = 0; line < lines_; ++line) {
            State before = start_of(a_.kind);
            for (std::int64_t p = 0; p < pieces; ++p) {
                State& own = states[static_cast<std::size_t>(line * pieces + p)];
                const State sum = own;
                own = before;
                before.first += sum.first;
                before.whole += sum.whole;
            }
        }
        each(true);
    }

    void run_bands() const {
        const std::int64_t blocks = (inner_ + width_ - 1) / width_, outer = lines_ / inner_;
        const std::int64_t grain = std::max<std::int64_t>(1, thread_elements / (width_ * count_));
        cpu::parallel_for(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
            Buffers buffers(*this, band_rows * width_);
            std::vector<State> states(static_cast<std::size_t>(width_));
            for (std::int64_t unit = begin; unit < end; ++unit) {
                const std::int64_t column = unit % blocks * width_, line = unit / blocks * inner_ + column;
                const std::int64_t width = std::min(width_, inner_ - column);
                std::ranges::fill(states, start_of(a_.kind));
                for (std::int64_t row = 0; row < scanned_; row += band_rows)
                    band(buffers, line, row, std::min(band_rows, scanned_ - row), width, states.data());
            }
        });
    }

    void band(Buffers& buffers, std::int64_t line, std::int64_t row, std::int64_t n, std::int64_t width,
              State* states) const {
        std::byte* place[output + 1] = {};
        std::int64_t strides[output + 1] = {};
        std::byte* targets[output + 1] = {};
        bool direct[output + 1] = {};
        for (int o = 0; o <= output; ++o) {
            if (o != output && !reads(o)) continue;
            const Operand& p = operands_[o];
            targets[o] = at(o, line, row);
            direct[o] = !converted_ && p.column == 1;
            place[o] = direct[o] ? targets[o] : (converted_ ? buffers.wide[o] : buffers.stored[o]).data();
            strides[o] = direct[o] ? p.step : width;
            if (o == output || direct[o]) continue;
            for (std::int64_t k = 0; k < n; ++k) {
                const std::byte* from = targets[o] + k * p.step * size_;
                std::byte* to = place[o] + k * width * wide_size_;
                if (!converted_) {
                    cpu::gather(to, from, p.column, size_, width);
                    continue;
                }
                const void* source = from;
                if (p.column != 1) {
                    cpu::gather(buffers.stored[o].data(), from, p.column, size_, width);
                    source = buffers.stored[o].data();
                }
                widen_(&source, to, width, nullptr);
            }
        }
        kernels_.band(place[0], place[1], place[output], n, width, strides, states);
        if (direct[output]) return;
        const Operand& p = operands_[output];
        for (std::int64_t k = 0; k < n; ++k) {
            std::byte* to = targets[output] + k * p.step * size_;
            const void* from = place[output] + k * width * wide_size_;
            if (!converted_) {
                cpu::scatter(to, p.column, from, size_, width);
            } else if (p.column == 1) {
                narrow_(&from, to, width, nullptr);
            } else {
                narrow_(&from, buffers.stored[output].data(), width, nullptr);
                cpu::scatter(to, p.column, buffers.stored[output].data(), size_, width);
            }
        }
    }

    /// Exclusive scans: the result of nothing.
    void write_first() const {
        const View& y = operands_[output].view;
        const double one = a_.kind == Kind::product ? 1 : 0;
        std::byte value[8];
        const void* from = &one;
        cpu::find_convert(f64, dtype_)(&from, value, 1, nullptr);
        const LineOffsets offsets(y, a_.axis);
        for (std::int64_t line = 0; line < lines_; ++line) {
            std::memcpy(y.as<std::byte>() + (offsets(line) + first_) * size_, value, static_cast<std::size_t>(size_));
        }
    }

    const Attributes& a_;
    DType dtype_ = f32, wide_ = f32;
    bool converted_ = false, two_ = false;
    std::int64_t count_ = 0, scanned_ = 0, lines_ = 0, first_ = 0;
    std::int64_t size_ = 4, wide_size_ = 4;
    std::int64_t inner_ = 0, width_ = 0;  ///< columns of a band in all, and of a block; 0: pieces
    Operand operands_[output + 1];
    Kernels kernels_;
    TileKernel widen_ = nullptr, narrow_ = nullptr;
};

}  // namespace

void run_lines(const graph::Call& call) { Walk(call).run(); }

}  // namespace calor::ops::scan
