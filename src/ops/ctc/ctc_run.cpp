// The fast CTC: samples side by side on the threads, states in vectors, logarithms kept small by subtracting from each
// column what was the largest of the one before (the sum of what was subtracted is kept in f64).
//
// The gradient walks the frames backward beside the columns of the forward walk. As many of those are kept as take
// kept_bytes or kept_numbers a frame; what lies between is computed again (checkpoints.h): not at all for short
// targets, once for most, a few times for very long ones.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/convert.h"
#include "device/cpu/parallel.h"
#include "device/cpu/scratch.h"
#include "device/cpu/tile_copy.h"
#include "ops/ctc/checkpoints.h"
#include "ops/ctc/cpu/ctc_kernels.h"
#include "ops/ctc/problem.h"

namespace calor::ops::ctc {
namespace {

constexpr std::int64_t kept_bytes = std::int64_t{4} << 20, kept_numbers = 32, least_columns = 16;
constexpr std::int64_t stream_bytes = std::int64_t{8} << 20;  // larger gradients are written past the caches

/// Rows x[t, n, :] in the compute dtype: in place when they lie so, else copied.
template <class T> class Rows {
public:
    explicit Rows(const View& x) : x_(x), classes_(x.size(2)), direct_(x.dtype == dtype_of<T> && x.stride(2) == 1) {
        if (direct_) return;
        packed_ = cpu::Scratch(classes_ * size_of(x.dtype));
        wide_ = cpu::Scratch(classes_ * static_cast<std::int64_t>(sizeof(T)));
        widen_ = cpu::find_convert(x.dtype, dtype_of<T>);
    }
    const T* load(std::int64_t t, std::int64_t n) {
        const std::int64_t size = size_of(x_.dtype);
        const char* from = x_.as<const char>() + (t * x_.stride(0) + n * x_.stride(1)) * size;
        if (direct_) return reinterpret_cast<const T*>(from);
        const void* source = from;
        if (x_.stride(2) != 1) {
            cpu::gather(packed_.bytes(), from, x_.stride(2), size, classes_);
            source = packed_.bytes();
        }
        widen_(&source, wide_.bytes(), classes_, nullptr);
        return reinterpret_cast<const T*>(wide_.bytes());
    }

private:
    View x_;
    std::int64_t classes_;
    bool direct_;
    cpu::Scratch packed_, wide_;
    TileKernel widen_ = nullptr;
};

/// Rows of the gradient: computed where they belong or in a buffer.
template <class T> class ResultRows {
public:
    explicit ResultRows(const View& y) : y_(y), classes_(y.size(2)), size_(size_of(y.dtype)) {
        same_ = y.dtype == dtype_of<T>;
        stream_ = y.count() * size_ >= stream_bytes;
        if (same_ && !stream_) return;
        wide_ = cpu::Scratch(classes_ * static_cast<std::int64_t>(sizeof(T)));
        if (same_) return;
        narrow_ = cpu::find_convert(dtype_of<T>, y.dtype);
        if (stream_) packed_ = cpu::Scratch(classes_ * size_);
    }
    T* place(std::int64_t t, std::int64_t n) {
        return reinterpret_cast<T*>(same_ && !stream_ ? target(t, n) : wide_.bytes());
    }
    void store(std::int64_t t, std::int64_t n) {
        if (same_ && !stream_) return;
        const void* from = wide_.bytes();
        if (!same_) {
            char* narrow = stream_ ? packed_.bytes() : target(t, n);
            narrow_(&from, narrow, classes_, nullptr);
            from = narrow;
        }
        if (stream_) cpu::stream_copy(target(t, n), from, classes_ * size_);
    }

private:
    char* target(std::int64_t t, std::int64_t n) const {
        return y_.as<char>() + (t * y_.stride(0) + n * y_.stride(1)) * size_;
    }
    View y_;
    std::int64_t classes_, size_;
    bool same_ = false, stream_ = false;
    cpu::Scratch wide_, packed_;
    TileKernel narrow_ = nullptr;
};

/// One worker's walk over the frames of samples.
template <class T> class Walk {
public:
    Walk(const Problem& problem, const View& x, const Kernels& kernels)
        : problem_(problem), kernels_(kernels), rows_(x) {
        std::int64_t most = 0;
        for (std::int64_t n = 0; n < problem.samples(); ++n) most = std::max(most, std::ssize(problem.labels_of(n)));
        const std::int64_t slots = slots_for(most);
        memory_ = cpu::Scratch((4 * slots + 5 * margin) * bytes_of_one);
        emissions_ = reinterpret_cast<T*>(memory_.bytes());
        skip_ = emissions_ + slots;
        work_ = skip_ + slots + 2 * margin;
        posteriors_ = work_ + slots + 2 * margin;
    }

    static constexpr std::int64_t bytes_of_one = static_cast<std::int64_t>(sizeof(T));
    std::int64_t slots() const { return slots_; }
    std::span<const std::int64_t> labels() const { return labels_; }
    T* posteriors() const { return posteriors_; }
    Rows<T>& rows() { return rows_; }

    void start(std::int64_t sample) {
        labels_ = problem_.labels_of(sample);
        const std::int64_t s = std::ssize(labels_);
        slots_ = slots_for(s);
        std::fill_n(emissions_, slots_, never<T>);
        std::fill_n(skip_, slots_ + margin, T(0));
        for (std::int64_t i = 2; i <= s; ++i) {
            if (label(i) != label(i - 1)) skip_[i] = 1;
        }
    }
    /// A column with one blank state certain: 0 before the first frame, S behind the last.
    void certain(T* column, std::int64_t blank) const {
        std::fill_n(column, column_size(slots_), never<T>);
        column[margin + blank] = 0;
    }
    /// Scores of a frame; `sum` is the logarithm of their normaliser. Returns false where a score is no number.
    bool load(const T* row, double sum, double largest) {
        bool good = std::isfinite(sum);
        for (std::size_t i = 0; i < labels_.size(); ++i) {
            const T e = row[labels_[i]];
            good &= e < std::numeric_limits<T>::infinity();
            emissions_[i + 1] = e;
        }
        const T blank = row[problem_.blank];
        good &= blank < std::numeric_limits<T>::infinity();
        const double shift = largest > static_cast<double>(never<T>) / 2 ? largest : 0;
        const auto offset = static_cast<T>(-(sum + shift));
        frame_ = {emissions_, static_cast<double>(blank), static_cast<double>(offset), skip_, work_, slots_};
        removed_ = -sum - static_cast<double>(offset);
        return good;
    }
    /// What the frame's offset took out of the column beside the normaliser.
    double removed() const { return removed_; }
    double forward(const T* before, T* after) const { return kernels_.forward(frame_, before, after); }
    Posteriors backward(const T* alpha, double scale, T* column) const {
        return kernels_.backward(frame_, alpha, scale, column, posteriors_);
    }
    /// The logarithm of the probability of the labels, from the last column; -inf when they cannot be aligned.
    double total(const T* column, double removed) const {
        const T* b = column + margin;
        const double both = kernels_.add(static_cast<double>(b[labels_.size()]),
                                         static_cast<double>(b[slots_ + margin + std::ssize(labels_)]));
        return both > static_cast<double>(never<T>) / 2 ? both + removed : -HUGE_VAL;
    }

private:
    std::int64_t label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i - 1)]; }

    const Problem& problem_;
    const Kernels& kernels_;
    Rows<T> rows_;
    cpu::Scratch memory_;
    T *emissions_ = nullptr, *skip_ = nullptr, *work_ = nullptr, *posteriors_ = nullptr;
    std::span<const std::int64_t> labels_;
    std::int64_t slots_ = 0;
    double removed_ = 0;
    Frame frame_;
};

template <class T> std::int64_t most_columns(const Problem& p, std::int64_t& slots) {
    std::int64_t most = 0;
    slots = margin;
    for (std::int64_t n = 0; n < p.samples(); ++n) {
        most = std::max(most, p.frames_of(n));
        slots = std::max(slots, slots_for(std::ssize(p.labels_of(n))));
    }
    return most;
}

template <class T> void forward(const graph::Call& c) {
    const Problem& p = *c.attrs<Attributes>().problem;
    const View &x = c.inputs[0], &losses = c.outputs[0];
    const View* sums = p.logits ? &c.outputs[1] : nullptr;
    const Kernels& kernels = find_kernels(sizeof(T) == 8);
    const std::int64_t frames = x.size(0), samples = x.size(1), classes = x.size(2);
    const auto sum_at = [&](std::int64_t t, std::int64_t n) -> T& {
        return sums->as<T>()[t * sums->stride(0) + n * sums->stride(1)];
    };
    // Too few samples to share among the threads: the sums of all frames first, in f64 as one by one.
    const bool spread = p.logits && samples < thread_count();
    const cpu::Scratch early(spread ? frames * samples * 8 : 0);
    auto* early_sums = reinterpret_cast<double*>(early.bytes());
    if (spread) {
        cpu::parallel_for(frames * samples, std::max<std::int64_t>(1, 4096 / classes),
                          [&](std::int64_t begin, std::int64_t end) {
                              Rows<T> rows(x);
                              for (std::int64_t i = begin; i < end; ++i)
                                  early_sums[i] = kernels.logsumexp(rows.load(i / samples, i % samples), classes);
                          });
    }
    std::int64_t slots = 0;
    most_columns<T>(p, slots);
    cpu::parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
        Walk<T> walk(p, x, kernels);
        const cpu::Scratch memory(2 * column_size(slots) * Walk<T>::bytes_of_one);
        T* columns[2] = {reinterpret_cast<T*>(memory.bytes()),
                         reinterpret_cast<T*>(memory.bytes()) + column_size(slots)};
        for (std::int64_t n = begin; n < end; ++n) {
            walk.start(n);
            for (T* column : columns) walk.certain(column, 0);
            double largest = 0, removed = 0;
            bool good = true;
            for (std::int64_t t = 0; t < p.frames_of(n); ++t) {
                const T* row = walk.rows().load(t, n);
                double sum = 0;
                if (p.logits) {
                    sum = spread ? early_sums[t * samples + n] : kernels.logsumexp(row, classes);
                    sum_at(t, n) = static_cast<T>(sum);
                }
                good &= walk.load(row, sum, largest);
                if (!good) continue;
                removed += walk.removed();
                largest = walk.forward(columns[t % 2], columns[(t + 1) % 2]);
            }
            for (std::int64_t t = p.frames_of(n); t < frames && p.logits; ++t) sum_at(t, n) = 0;
            const double total = walk.total(columns[p.frames_of(n) % 2], removed);
            losses.as<T>()[n * losses.stride(0)] = static_cast<T>(good ? 0 - total : NAN);
        }
    });
}

/// The gradient of one worker's samples.
template <class T> class Gradient {
public:
    Gradient(const graph::Call& c, const Kernels& kernels)
        : p_(*c.attrs<Attributes>().problem),
          x_(c.inputs[0]),
          losses_(c.inputs[1]),
          g_(c.inputs[2]),
          sums_(p_.logits ? &c.inputs[3] : nullptr),
          kernels_(kernels),
          walk_(p_, x_, kernels),
          result_(c.outputs[0]) {
        std::int64_t slots = 0;
        const std::int64_t most = most_columns<T>(p_, slots), size = column_size(slots) * Walk<T>::bytes_of_one;
        const std::int64_t budget = std::max(kept_bytes, most * kept_numbers * Walk<T>::bytes_of_one);
        columns_ = std::clamp<std::int64_t>(most, 1, std::max(least_columns, budget / size));
        memory_ = cpu::Scratch((columns_ + 2) * static_cast<std::int64_t>(sizeof(Offset)) + (columns_ + 3) * size);
        offsets_ = reinterpret_cast<Offset*>(memory_.bytes());
        first_ = reinterpret_cast<T*>(offsets_ + columns_ + 2);
        beta_ = first_ + (columns_ + 2) * column_size(slots);
    }

    void run(std::int64_t n) {
        sample_ = n;
        const double loss = static_cast<double>(losses_.as<T>()[n * losses_.stride(0)]);
        scale_ = static_cast<double>(g_.as<T>()[n * g_.stride(0)]);
        const std::int64_t frames = p_.frames_of(n);
        for (std::int64_t t = frames; t < x_.size(0); ++t) constant(t, 0);
        if (!std::isfinite(loss)) {  // nothing aligns: 0; no numbers: none either
            for (std::int64_t t = 0; t < frames; ++t) constant(t, std::isnan(loss) ? NAN : 0);
            return;
        }
        if (frames == 0) return;
        walk_.start(n);
        walk_.certain(first_, 0);
        offsets_[0] = {};
        walk_.certain(beta_, std::ssize(walk_.labels()));
        beta_removed_ = beta_largest_ = 0;
        walk_back(
            frames, columns_, [&](std::int64_t t, std::int64_t from, std::int64_t to) { step_on(t, from, to); },
            [&](std::int64_t state, std::int64_t column) { step_back(state - 1, column, loss); });
    }

private:
    /// What was subtracted from a column so far, and its largest element.
    struct Offset {
        double removed = 0, largest = 0;
    };

    T* column_at(std::int64_t i) const { return first_ + i * column_size(walk_.slots()); }
    double sum_at(std::int64_t t) const {
        return sums_ ? static_cast<double>(sums_->as<T>()[t * sums_->stride(0) + sample_ * sums_->stride(1)]) : 0;
    }

    /// Column `to`, behind frame t, from column `from` before it.
    void step_on(std::int64_t t, std::int64_t from, std::int64_t to) {
        walk_.load(walk_.rows().load(t, sample_), sum_at(t), offsets_[from].largest);
        guard(column_at(to));
        const double largest = walk_.forward(column_at(from), column_at(to));
        offsets_[to] = {offsets_[from].removed + walk_.removed(), largest};
    }
    void guard(T* column) const {
        const std::int64_t slots = walk_.slots();
        for (std::int64_t i = 0; i < 3; ++i) std::fill_n(column + i * (slots + margin), margin, never<T>);
    }

    void step_back(std::int64_t t, std::int64_t column, double loss) {
        const T* row = walk_.rows().load(t, sample_);
        const double sum = sum_at(t);
        walk_.load(row, sum, beta_largest_);
        const double together = offsets_[column].removed + beta_removed_ + loss;
        const Posteriors found = walk_.backward(column_at(column), together, beta_);
        beta_removed_ += walk_.removed();
        beta_largest_ = found.largest;
        T* to = result_.place(t, sample_);
        if (sums_) {
            kernels_.softmax(row, to, x_.size(2), sum, scale_);
        } else {
            std::fill_n(to, x_.size(2), T(0));
        }
        const double share = scale_ / (found.blank + found.labels);  // they add up to 1, but for rounding
        to[p_.blank] -= static_cast<T>(share * found.blank);
        const T factor = static_cast<T>(share), *posteriors = walk_.posteriors() + 1;
        for (std::size_t i = 0; i < walk_.labels().size(); ++i) to[walk_.labels()[i]] -= factor * posteriors[i];
        result_.store(t, sample_);
    }

    void constant(std::int64_t t, double value) {
        std::fill_n(result_.place(t, sample_), x_.size(2), static_cast<T>(value));
        result_.store(t, sample_);
    }

    const Problem& p_;
    const View &x_, &losses_, &g_;
    const View* sums_;
    const Kernels& kernels_;
    Walk<T> walk_;
    ResultRows<T> result_;
    cpu::Scratch memory_;
    std::int64_t columns_ = 1, sample_ = 0;  ///< columns that are kept; two more are for work
    Offset* offsets_ = nullptr;              ///< of every column
    T *first_ = nullptr, *beta_ = nullptr;
    double scale_ = 1, beta_removed_ = 0, beta_largest_ = 0;
};

template <class T> void backward(const graph::Call& c) {
    const Kernels& kernels = find_kernels(sizeof(T) == 8);
    cpu::parallel_for(c.inputs[0].size(1), 1, [&](std::int64_t begin, std::int64_t end) {
        Gradient<T> gradient(c, kernels);
        for (std::int64_t n = begin; n < end; ++n) gradient.run(n);
    });
}

}  // namespace

void run_forward(const graph::Call& c) {
    if (c.outputs[0].dtype == f64) return forward<double>(c);
    forward<float>(c);
}

void run_backward(const graph::Call& c) {
    if (c.inputs[1].dtype == f64) return backward<double>(c);
    backward<float>(c);
}

}  // namespace calor::ops::ctc
