// parallel_for: splits [0, count) into equal chunks over the worker threads. The body sees ranges; what it computes for
// an index must not depend on the ranges, so that results are the same for any number of threads.
#pragma once

#include <cstdint>

namespace calor::cpu {

/// A reference to a callable `void(std::int64_t begin, std::int64_t end)`; the callable outlives the call.
class RangeBody {
public:
    template <class F>
    RangeBody(const F& f)  // NOLINT: made from any lambda
        : object_(&f),
          call_([](const void* o, std::int64_t b, std::int64_t e) { (*static_cast<const F*>(o))(b, e); }) {}
    void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

private:
    const void* object_;
    void (*call_)(const void*, std::int64_t, std::int64_t);
};

/// Runs `body` over [0, count); a thread gets at least `grain` indices. An exception of a body is rethrown here.
void parallel_for(std::int64_t count, std::int64_t grain, RangeBody body);

}  // namespace calor::cpu
