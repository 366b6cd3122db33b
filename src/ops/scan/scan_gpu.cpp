// Scans on GPUs. Many lines side by side: a thread a line. Lines that lie densely, or few of them: a group a line.
// Where even that leaves units idle, lines are cut into chunks: a first launch finds the state after each chunk, a
// second scans.
#include <algorithm>

#include "ops/gpu.h"
#include "ops/scan/scan.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile scan_scan;
}

namespace ops::scan {
namespace {

constexpr std::int64_t most_state_bytes = 16, items = 4;  // as in scan.kernel
constexpr int operands = 4;                               // x, second input, y, positions

enum class Step : std::uint8_t { sum, product, logsumexp, recurrence, extreme, runs };  // as in scan.kernel

DType without_sign(DType t) { return t == i64 ? u64 : t == i32 ? u32 : t == i16 ? u16 : t == i8 ? u8 : t; }

/// What is scanned, with strides turned into the direction of travel.
class Problem {
public:
    Problem(const graph::Call& call, Step step, bool reverse, bool option)
        : call_(call), step_(step), axis_(call.attrs<Attributes>().axis), reverse_(reverse), option_(option) {
        const View &x = call.inputs[0], &b = call.inputs.back(), &y = call.outputs[0], &p = call.outputs.back();
        const View* const views[operands] = {&x, &b, &y, &p};
        n_ = y.size(axis_);
        std::vector<std::int64_t> order;
        for (std::int64_t a = 0; a < y.rank(); ++a) {
            if (a != axis_ && y.size(a) != 1) order.push_back(a);
        }
        const auto lies = [&](std::int64_t a) { return std::abs(y.stride(a)); };
        std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t c) { return lies(a) > lies(c); });
        const std::int64_t rank = std::max<std::int64_t>(8, std::ssize(order)), first = rank - std::ssize(order);
        sizes_ = Dims(rank, 1);
        for (int o = 0; o < operands; ++o) {
            const View& v = *views[o];
            strides_[o] = Strides(rank, 0);
            for (std::int64_t i = 0; i < std::ssize(order); ++i) {
                const std::int64_t a = order[static_cast<std::size_t>(i)];
                sizes_[first + i] = y.size(a);
                strides_[o][first + i] = v.stride(a);
            }
            steps_[o] = reverse ? -v.stride(axis_) : v.stride(axis_);
            const std::int64_t offset = reverse ? (n_ - 1) * v.stride(axis_) : 0;
            data_[o] = v.as<std::byte>() + offset * size_of(v.dtype);
        }
        lines_ = y.count() / std::max<std::int64_t>(1, n_);
        wide_ = call.backend.gpu()->traits().f64 ? f64 : f32;
    }

    void run() {
        if (n_ == 0 || lines_ == 0) return;
        const std::int64_t units = call_.backend.gpu()->traits().units;
        const bool dense = std::abs(steps_[0]) == 1 && std::abs(steps_[2]) == 1;
        const bool side_by_side = !dense && (lines_ >= 32 || n_ <= 32);
        // A group's scan is worth its barriers where threads can shuffle, or where there is much to scan.
        const bool little = lines_ * n_ < (call_.backend.gpu()->traits().subgroup > 1 ? 4096 : 65536);
        if (little || n_ <= 16 || (dense && n_ <= 64 && lines_ >= units * 256) || side_by_side) {
            return each_thread(units * 512);
        }
        each_group(units * 8);
    }

private:
    void cut(std::int64_t chunks, std::int64_t step) {
        chunks = std::clamp<std::int64_t>(chunks, 1, 256);
        chunk_ = ((n_ + chunks - 1) / chunks + step - 1) / step * step;
        chunks_ = (n_ + chunk_ - 1) / chunk_;
    }
    void each_thread(std::int64_t wanted) {
        cut(std::min(wanted / lines_, n_ / 64), 1);
        in_two_passes([&](bool totals, const Ref<Storage>& states) {
            gpu::Launch l = start("scan_lines", totals, states);
            l.size(lines_);
            finish(l).over(lines_ * chunks_);
        });
    }
    void each_group(std::int64_t wanted) {
        std::int64_t threads = 32;
        while (threads < 256 && threads * items < n_) threads *= 2;
        cut(std::min({wanted / lines_, n_ / (threads * items * 4), threads}), threads * items);
        in_two_passes([&](bool totals, const Ref<Storage>& states) {
            gpu::Launch l = start("scan_blocks", totals, states);
            l.threads(threads);
            finish(l).run({lines_, chunks_, 1});
        });
    }

    template <class F> void in_two_passes(const F& pass) {
        if (chunks_ == 1) return pass(false, {});
        const Ref<Storage> states = graph::scratch(call_, lines_ * chunks_ * most_state_bytes);
        pass(true, states);
        pass(false, states);
    }

    gpu::Launch start(const char* entry, bool totals, const Ref<Storage>& states) const {
        const DType dtype = call_.outputs[0].dtype;
        const bool wraps = step_ == Step::sum || step_ == Step::product;
        const DType x = wraps ? without_sign(dtype) : dtype;
        gpu::Launch l = launch(call_, kernels::scan_scan, entry);
        l.constant("X", x)
            .constant("B", step_ == Step::runs ? i64 : x)
            .constant("W", wide_)
            .constant("KIND", static_cast<int>(step_))
            .constant("RANK", sizes_.rank())
            .constant("TOTALS", totals);
        for (const void* data : data_) l.buffer(data);
        l.buffer(states ? states->data : data_[2]);
        return l;
    }
    gpu::Launch& finish(gpu::Launch& l) const {
        l.size(n_).size(chunk_).size(chunks_);
        for (const std::int64_t s : steps_) l.size(s);
        std::int64_t reach = 0;
        for (const std::int64_t s : steps_) reach = std::max(reach, std::abs(s) * n_);
        l.wide(reach >= std::int64_t{1} << 30 || lines_ * n_ >= std::int64_t{1} << 30);
        l.value(reverse_ ? 1 : 0).value(option_ ? 1 : 0);
        const std::span<const std::int64_t> lists[operands] = {strides_[0], strides_[1], strides_[2], strides_[3]};
        return l.layout(sizes_, lists);
    }

    const graph::Call& call_;
    Step step_;
    std::int64_t axis_;
    bool reverse_, option_;
    std::int64_t n_ = 0, lines_ = 0, chunk_ = 1, chunks_ = 1;
    Dims sizes_;
    Strides strides_[operands];
    std::int64_t steps_[operands] = {};
    void* data_[operands] = {};
    DType wide_ = f32;
};

void run_scan(const graph::Call& c) {
    const auto& a = c.attrs<Attributes>();
    constexpr Step steps[] = {Step::sum, Step::product, Step::logsumexp, Step::recurrence};
    Problem(c, steps[static_cast<int>(a.kind)], a.reverse, a.kind == Kind::recurrence ? a.lag : a.exclusive).run();
}
/// The cotangents of a run of equal extremes are summed up against the direction of travel: where the run began, the
/// sum is complete.
void run_gradient(const graph::Call& c) { Problem(c, Step::runs, !c.attrs<Attributes>().reverse, false).run(); }

const graph::Implementation scan_list[] = {{.name = "reference", .run = run_scan}};
const graph::Implementation largest_list[] = {
    {.name = "reference",
     .run = [](const graph::Call& c) { Problem(c, Step::extreme, c.attrs<Attributes>().reverse, false).run(); }}};
const graph::Implementation smallest_list[] = {
    {.name = "reference",
     .run = [](const graph::Call& c) { Problem(c, Step::extreme, c.attrs<Attributes>().reverse, true).run(); }}};
const graph::Implementation gradient_list[] = {{.name = "reference", .run = run_gradient}};

}  // namespace

std::span<const graph::Implementation> scan_on_gpu() { return scan_list; }
std::span<const graph::Implementation> cummax_on_gpu() { return largest_list; }
std::span<const graph::Implementation> cummin_on_gpu() { return smallest_list; }
std::span<const graph::Implementation> extreme_gradient_on_gpu() { return gradient_list; }

}  // namespace ops::scan
}  // namespace calor
