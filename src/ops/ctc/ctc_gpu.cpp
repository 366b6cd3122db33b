// The CTC loss on GPUs: a group a sample for the walks over the frames, which are sequential, and a group a frame for
// what is not: the log-sums before them and the rows of the gradient behind them.
//
// The gradient keeps the columns of all frames where these fit; else it keeps the columns from which stretches of
// frames start, and walks each stretch again.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/ctc/problem.h"
#include "ops/gpu.h"

namespace calor {
namespace kernels {
extern const gpu::KernelFile ctc_ctc;
}

namespace ops::ctc {
namespace {

using graph::Call;

/// What of a problem the kernels read: see ctc.kernel.
struct Tables {
    std::vector<std::int64_t> numbers;
    std::int64_t labels_at = 0, distinct_at = 0, positions_at = 0, states = 1, frames = 0;
    Ref<Storage> memory;

    Tables(const Call& c, const Problem& p) {
        std::vector<std::int64_t> distinct, positions;
        for (std::int64_t n = 0; n < p.samples(); ++n) {
            const auto labels = p.labels_of(n);
            std::map<std::int64_t, std::vector<std::int64_t>> places;
            for (std::size_t i = 0; i < labels.size(); ++i) places[labels[i]].push_back(static_cast<std::int64_t>(i));
            for (const std::int64_t number : {p.frames_of(n), p.starts[static_cast<std::size_t>(n)], std::ssize(labels),
                                              std::ssize(distinct) / 3, std::ssize(places)}) {
                numbers.push_back(number);
            }
            for (const auto& [label, list] : places) {
                distinct.insert(distinct.end(), {label, std::ssize(positions), std::ssize(list)});
                positions.insert(positions.end(), list.begin(), list.end());
            }
            states = std::max(states, 2 * std::ssize(labels) + 1);
            frames = std::max(frames, p.frames_of(n));
        }
        labels_at = std::ssize(numbers);
        numbers.insert(numbers.end(), p.labels.begin(), p.labels.end());
        distinct_at = std::ssize(numbers);
        numbers.insert(numbers.end(), distinct.begin(), distinct.end());
        positions_at = std::ssize(numbers);
        numbers.insert(numbers.end(), positions.begin(), positions.end());
        memory = graph::scratch(c, std::ssize(numbers) * 8);
        c.backend.stream().copy_to_device(memory->data, numbers.data(), std::ssize(numbers) * 8);
    }
};

/// A walk over frames of a call's scores.
class Walk {
public:
    /// `columns`: kept beside the one before the first frame.
    Walk(const Call& c, const View* sums, std::int64_t columns)
        : c_(c),
          p_(*c.attrs<Attributes>().problem),
          x_(c.inputs[0]),
          sums_(sums),
          tables_(c, p_),
          slots_(columns + 1),
          wide_(compute_type(x_.dtype)) {
        columns_ = room(slots_ * tables_.states);
        offsets_ = room(slots_ * 3);
    }
    static std::int64_t threads_for(const Call& c, std::int64_t states) {
        return states > 1024 && c.backend.gpu()->traits().max_threads >= 1024 ? 1024 : 256;
    }

    const Tables& tables() const { return tables_; }
    Ref<Storage> room(std::int64_t each) const {
        return graph::scratch(
            c_, checked_multiply(checked_multiply(each, p_.samples(), c_.where), size_of(wide_), c_.where));
    }
    /// A column and its offsets, from which a walk goes on.
    struct Start {
        Ref<Storage> column, offsets;
    };
    Start make_start() const { return {room(tables_.states), room(3)}; }

    /// Columns of frames [t0, t1), from `start`; `last` receives the last one.
    void forward(std::int64_t t0, std::int64_t t1, const Start& start, const Start& last) const {
        launch_forward(true, t0, t1, start, last, columns_->data);
    }
    /// The losses.
    void losses(std::int64_t frames, const View& to) const {
        const Start none{columns_, offsets_};
        launch_forward(false, 0, frames, none, none, to.data);
    }
    void backward(std::int64_t t0, std::int64_t t1, const Ref<Storage>& state, const Ref<Storage>& offsets) const {
        gpu::Launch l = start_walk("backward");
        l.buffer(x_).buffer(sums_data()).buffer(tables_.memory).buffer(c_.inputs[1]).buffer(columns_).buffer(offsets_);
        l.buffer(state).buffer(offsets).value(logits());
        frames(l, t0, t1);
        l.size(c_.inputs[1].stride(0));
        scores(l).run(p_.samples());
    }
    void rows(std::int64_t t0, std::int64_t t1) const {
        gpu::Launch l = start_launch("gradient");
        l.threads(128);
        l.buffer(x_).buffer(sums_data()).buffer(tables_.memory).buffer(c_.inputs[1]).buffer(c_.inputs[2]);
        l.buffer(columns_)
            .buffer(c_.outputs[0])
            .value(logits())
            .size(t0)
            .size(p_.samples())
            .size(tables_.states)
            .size(slots_);
        l.size(p_.blank).size(tables_.distinct_at).size(tables_.positions_at).size(sum_t()).size(sum_n());
        l.size(c_.inputs[1].stride(0)).size(c_.inputs[2].stride(0));
        scores(l).run((t1 - t0) * p_.samples());
    }
    void log_sums(const View& to) {
        rests_ = graph::scratch(c_, checked_multiply(to.count(), size_of(wide_), c_.where));
        gpu::Launch l = start_launch("log_sums");
        l.threads(128);
        l.buffer(x_).buffer(tables_.memory).buffer(to).buffer(rests_).size(p_.samples());
        scores(l).run(to.count());
    }

private:
    gpu::Launch start_launch(const char* entry) const {
        gpu::Launch l = launch(c_, kernels::ctc_ctc, entry);
        l.constant("X", x_.dtype).uses(wide_).wide(reaches_far());
        return l;
    }
    gpu::Launch start_walk(const char* entry) const {
        gpu::Launch l = start_launch(entry);
        l.threads(threads_for(c_, tables_.states));
        return l;
    }
    bool reaches_far() const {
        return p_.samples() * slots_ * std::max<std::int64_t>(tables_.states, 3) >= (std::int64_t{1} << 30);
    }
    std::int32_t logits() const { return p_.logits ? 1 : 0; }
    void* sums_data() const { return sums_ ? sums_->data : tables_.memory->data; }
    std::int64_t sum_t() const { return sums_ ? sums_->stride(0) : 0; }
    std::int64_t sum_n() const { return sums_ ? sums_->stride(1) : 0; }
    void frames(gpu::Launch& l, std::int64_t t0, std::int64_t t1) const {
        l.size(t0).size(t1).size(tables_.states).size(slots_).size(p_.blank).size(tables_.labels_at);
        l.size(sum_t()).size(sum_n());
    }
    gpu::Launch& scores(gpu::Launch& l) const {
        return l.layout(*x_.shape, {std::span<const std::int64_t>(*x_.strides)});
    }
    void launch_forward(bool keeps, std::int64_t t0, std::int64_t t1, const Start& start, const Start& last,
                        void* losses) const {
        gpu::Launch l = start_walk("forward");
        l.buffer(x_)
            .buffer(sums_data())
            .buffer(tables_.memory)
            .buffer(rests_ ? rests_ : offsets_)
            .buffer(start.column)
            .buffer(start.offsets);
        l.buffer(columns_).buffer(offsets_).buffer(last.column).buffer(last.offsets).buffer(losses);
        l.value(logits()).value(std::int32_t{keeps});
        frames(l, t0, t1);
        scores(l).run(p_.samples());
    }

    const Call& c_;
    const Problem& p_;
    const View& x_;
    const View* sums_;
    Tables tables_;
    std::int64_t slots_;
    DType wide_;
    Ref<Storage> columns_, offsets_, rests_;
};

void run_forward_gpu(const Call& c) {
    const bool logits = c.attrs<Attributes>().problem->logits;
    if (c.outputs[0].count() == 0) return;
    Walk walk(c, logits ? &c.outputs[1] : nullptr, 1);
    if (logits) walk.log_sums(c.outputs[1]);
    walk.losses(walk.tables().frames, c.outputs[0]);
}

/// Frames whose columns are kept at once: all, or as many as a share of the memory holds, but the root of their number
/// at least.
std::int64_t stretch_for(const Call& c, const Problem& p) {
    std::int64_t states = 1, frames = 1;
    for (std::int64_t n = 0; n < p.samples(); ++n) {
        states = std::max(states, 2 * std::ssize(p.labels_of(n)) + 1);
        frames = std::max(frames, p.frames_of(n));
    }
    const double column = static_cast<double>(states) * static_cast<double>(p.samples()) * 8;
    const double share = std::max(256e6, static_cast<double>(c.backend.gpu()->traits().memory) / 8);
    const auto fit = static_cast<std::int64_t>(share / column);
    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(frames))));
    return std::clamp(fit, root, frames);
}

void run_backward_with(const Call& c, std::int64_t stretch) {
    const Problem& p = *c.attrs<Attributes>().problem;
    if (c.outputs[0].count() == 0) return;
    const Walk walk(c, p.logits ? &c.inputs[3] : nullptr, stretch);
    const std::int64_t frames = walk.tables().frames,
                       stretches = std::max<std::int64_t>(1, (frames + stretch - 1) / stretch);
    std::vector<Walk::Start> starts;
    for (std::int64_t s = 0; s < stretches; ++s) starts.push_back(walk.make_start());
    const auto end = [&](std::int64_t s) { return std::min(frames, (s + 1) * stretch); };
    for (std::int64_t s = 0; s + 1 < stretches; ++s) {
        walk.forward(s * stretch, end(s), starts[static_cast<std::size_t>(s)], starts[static_cast<std::size_t>(s) + 1]);
    }
    const Walk::Start unused = walk.make_start();
    const auto state = walk.room(2 * walk.tables().states), offsets = walk.room(4);
    for (std::int64_t s = stretches - 1; s >= 0; --s) {
        const std::int64_t t0 = s * stretch;
        walk.forward(t0, end(s), starts[static_cast<std::size_t>(s)], unused);
        walk.backward(t0, end(s), state, offsets);
        walk.rows(t0, s + 1 == stretches ? c.inputs[0].size(0) : end(s));
    }
}

void run_backward_gpu(const Call& c) { run_backward_with(c, stretch_for(c, *c.attrs<Attributes>().problem)); }
/// What long inputs take, for any length.
void run_backward_stretches(const Call& c) {
    std::int64_t frames = 1;
    for (const std::int64_t f : c.attrs<Attributes>().problem->frames) frames = std::max(frames, f);
    run_backward_with(c, static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(frames)))));
}

void run_alpha_gpu(const Call& c) {
    const View &e = c.inputs[0], &a = c.outputs[0];
    if (a.count() == 0) return;
    const Tables tables(c, *c.attrs<Attributes>().problem);
    launch(c, kernels::ctc_ctc, "alpha")
        .constant("X", e.dtype)
        .threads(Walk::threads_for(c, e.size(2)))
        .buffer(e)
        .buffer(tables.memory)
        .buffer(a)
        .size(tables.labels_at)
        .layout(*e.shape, {std::span<const std::int64_t>(*e.strides)})
        .run(e.size(1));
}

void run_band_gpu(const Call& c) {
    const View& h = c.outputs[0];
    if (h.count() == 0) return;
    std::vector<std::span<const std::int64_t>> strides;
    gpu::Launch l = launch(c, kernels::ctc_ctc, "band");
    l.constant("X", h.dtype).constant("TRANSPOSED", c.attrs<BandAttributes>().transposed);
    l.threads(Walk::threads_for(c, h.size(2)));
    for (const View& v : c.inputs) {
        l.buffer(v);
        strides.emplace_back(*v.strides);
    }
    l.buffer(h).layout(*h.shape, strides).run(h.size(1));
}

const graph::Implementation forward_list[] = {{.name = "reference", .run = run_forward_gpu}};
const graph::Implementation backward_list[] = {{.name = "columns", .run = run_backward_gpu},
                                               {.name = "reference", .run = run_backward_stretches}};
const graph::Implementation alpha_list[] = {{.name = "reference", .run = run_alpha_gpu}};
const graph::Implementation band_list[] = {{.name = "reference", .run = run_band_gpu}};

}  // namespace

std::span<const graph::Implementation> forward_on_gpu() { return forward_list; }
std::span<const graph::Implementation> backward_on_gpu() { return backward_list; }
std::span<const graph::Implementation> alpha_on_gpu() { return alpha_list; }
std::span<const graph::Implementation> band_on_gpu() { return band_list; }

}  // namespace ops::ctc
}  // namespace calor
