#include "calor/reduce.h"
#include "calor/train.h"
#include "core/fail.h"

namespace calor::train {

std::int64_t count_correct(const Tensor& scores, const Tensor& labels, const Where& where) {
    if (scores.rank(where) != 2) {
        fail("shape/rank", "count_correct", where,
             {{"argument", "scores"}, {"got", scores.rank()}, {"expected", 2}, {"help", "scores are [N, C]"}},
             describe(scores));
    }
    if (labels.rank(where) != 1 || labels.size(0) != scores.size(0)) {
        fail("shape/mismatch", "count_correct", where,
             {{"argument", "labels"},
              {"got", labels.shape()},
              {"expected", Shape{scores.size(0)}},
              {"help", "one class a row"}});
    }
    const NoGrad guard;
    const auto best = argmax(scores, {1}, false, where).to_vector<std::int64_t>();
    const auto truth = labels.to(i64, where).to_vector<std::int64_t>();
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) correct += best[i] == truth[i] ? 1 : 0;
    return correct;
}

}  // namespace calor::train
