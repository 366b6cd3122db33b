// Training loops' helpers: progress, running means, interruption.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "calor/tensor.h"

namespace calor::train {

/// A weighted running mean, kept in f64 so that it never stalls.
class Mean {
public:
    void add(double value, double weight = 1) {
        sum_ += value * weight;
        weight_ += weight;
    }
    /// The mean so far, 0 before the first value.
    double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }
    void reset() { *this = Mean(); }

private:
    double sum_ = 0, weight_ = 0;
};

/// How many rows of `scores` [N, C] have their largest entry at the class of `labels` [N] (integers).
/// Throws ShapeError [shape/rank], [shape/mismatch].
std::int64_t count_correct(const Tensor& scores, const Tensor& labels, const Where& where = Where::current());

/// A line of progress: bar, count, rate, time left, loss and metric. On a terminal it redraws itself in place;
/// elsewhere (a file, a pipe) it prints a plain line at every tenth of the way.
class Progress {
public:
    struct Options {
        std::string label;        ///< "epoch 1/3"
        std::int64_t total = 0;   ///< steps
        std::int64_t done = 0;    ///< steps that an earlier run took
        std::string unit = "it";  ///< of the rate
        double units_a_step = 1;  ///< samples in a batch
        std::FILE* stream = stderr;
    };
    explicit Progress(Options options);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `done` steps are taken; `status` stands at the end of the line ("loss 0.1234  accuracy 97.1 %").
    void update(std::int64_t done, const std::string& status);
    /// Prints the last state with a newline. The destructor only ends the line.
    void finish(const std::string& status);

    /// The text of the line for a width in columns (0: no limit, no bar).
    std::string line(int columns) const;

private:
    struct State;
    State* state_;
};

/// "1:05" or "1:00:05".
std::string clock_text(double seconds);

/// While one lives, Ctrl-C (SIGINT) and SIGTERM only set a flag; a second Ctrl-C ends the process as usual.
class InterruptGuard {
public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;
    /// Whether a signal came since the guard was made.
    bool requested() const;

private:
    struct Saved;
    Saved* saved_;
};

}  // namespace calor::train
