#include "ops/ctc/problem.h"

#include <fmt/format.h>

#include "ops/support.h"

namespace calor::ops::ctc {
namespace {

struct Caller {
    std::string_view operation;
    const Tensor& x;
    const Tensor& targets;
    const Where& where;
    std::string operands() const { return "scores " + describe(x) + ", targets " + describe(targets); }
};

void check_integers(const Caller& c, const Tensor& t, std::string_view argument) {
    if (is_integer(t.dtype())) return;
    fail("dtype/unsupported", c.operation, c.where,
         {{"argument", argument}, {"got", t.dtype()}, {"expected", "an integer dtype"}}, c.operands());
}

/// One length a sample, in [0, most].
std::vector<std::int64_t> read_lengths(const Caller& c, const Lengths& lengths, std::string_view option,
                                       std::int64_t most) {
    const std::int64_t samples = c.x.shape()[1];
    std::vector<std::int64_t> values = lengths.values();
    if (lengths.tensor().defined()) {
        const Tensor& t = lengths.tensor();
        check_integers(c, t, option);
        if (t.rank() > 1 || t.numel() != samples) {
            fail("shape/mismatch", c.operation, c.where,
                 {{"argument", option},
                  {"got", t.shape()},
                  {"expected", Shape{samples}},
                  {"help", "one length a sample"}},
                 c.operands());
        }
        values = t.to(i64, c.where).to_vector<std::int64_t>(c.where);
    } else if (!lengths.given()) {
        values.assign(static_cast<std::size_t>(samples), most);
    } else if (std::ssize(values) != samples) {
        fail("value/count", c.operation, c.where,
             {{"option", option}, {"got", std::ssize(values)}, {"expected", samples}}, c.operands());
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= 0 && values[i] <= most) continue;
        fail("ctc/length", c.operation, c.where,
             {{"option", option}, {"sample", static_cast<std::int64_t>(i)}, {"got", values[i]}, {"most", most}},
             c.operands());
    }
    return values;
}

void check_scores(const Caller& c, std::int64_t blank) {
    if (!is_floating(c.x.dtype())) {
        fail("dtype/unsupported", c.operation, c.where,
             {{"argument", "the scores"}, {"got", c.x.dtype()}, {"expected", "a floating dtype"}}, c.operands());
    }
    const std::int64_t classes = c.x.shape()[2];
    if (blank < 0 || blank >= classes) {
        fail("value/option", c.operation, c.where,
             {{"option", "blank"},
              {"got", blank},
              {"expected", fmt::format("a class, 0 to {}", classes - 1)},
              {"help", "the last axis of the scores has the classes"}},
             c.operands());
    }
}

void check_labels(const Caller& c, const Problem& p) {
    const std::int64_t classes = c.x.shape()[2];
    for (std::size_t i = 0; i < p.labels.size(); ++i) {
        const std::int64_t label = p.labels[i];
        if (label < 0 || label >= classes) {
            fail("index/range", c.operation, c.where,
                 {{"index", label},
                  {"position", static_cast<std::int64_t>(i)},
                  {"axis", 2},
                  {"size", classes},
                  {"low", 0},
                  {"high", classes - 1}},
                 c.operands());
        }
        if (label == p.blank) {
            fail("ctc/blank-label", c.operation, c.where,
                 {{"blank", p.blank}, {"position", static_cast<std::int64_t>(i)}}, c.operands());
        }
    }
}

}  // namespace

std::shared_ptr<const Problem> make_problem(std::string_view operation, const Tensor& x, const Tensor& targets,
                                            const CtcOptions& options, bool logits, const Where& where) {
    const Caller c{operation, x, targets, where};
    check_scores(c, options.blank);
    check_integers(c, targets, "the targets");
    const std::int64_t samples = x.shape()[1], rank = targets.rank();
    if (rank != 1 && rank != 2) {
        fail("shape/rank", operation, where,
             {{"argument", "the targets"},
              {"got", rank},
              {"expected", "1 or 2"},
              {"help", "labels are [N, S], or all samples' one behind the other"}},
             c.operands());
    }
    if (rank == 2 && targets.shape()[0] != samples) {
        fail("shape/mismatch", operation, where,
             {{"argument", "the targets"},
              {"got", targets.shape()},
              {"expected", Shape{samples, targets.shape()[1]}},
              {"help", "one row of labels a sample"}},
             c.operands());
    }
    if (rank == 1 && samples != 1 && !options.target_lengths.given()) {
        fail("value/count", operation, where, {{"option", "target_lengths"}, {"got", 0}, {"expected", samples}},
             c.operands());
    }
    auto p = std::make_shared<Problem>();
    p->logits = logits;
    p->blank = options.blank;
    p->frames = read_lengths(c, options.input_lengths, "input_lengths", x.shape()[0]);
    const std::int64_t width = targets.shape()[rank - 1];
    const auto lengths = read_lengths(c, options.target_lengths, "target_lengths", width);
    p->starts.push_back(0);
    for (const std::int64_t l : lengths) p->starts.push_back(checked_add(p->starts.back(), l, where));
    const auto all = targets.to(i64, where).to_vector<std::int64_t>(where);
    if (rank == 1) {
        if (p->starts.back() != width) {
            fail("ctc/target-count", operation, where, {{"sum", p->starts.back()}, {"count", width}}, c.operands());
        }
        p->labels = all;
    } else {
        for (std::size_t n = 0; n < lengths.size(); ++n) {
            const auto row = all.begin() + static_cast<std::int64_t>(n) * width;
            p->labels.insert(p->labels.end(), row, row + lengths[n]);
        }
    }
    check_labels(c, *p);
    return p;
}

}  // namespace calor::ops::ctc
