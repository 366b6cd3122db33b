// CALOR_VECTORIZE before a loop promises that its iterations don't depend on each other: an output is either apart from
// every input or equal to one of them exactly. Without it compilers test for overlap and run in-place loops
// unvectorised.
#pragma once

#if defined(__clang__)
#define CALOR_VECTORIZE _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#elif defined(__GNUC__)
#define CALOR_VECTORIZE _Pragma("GCC ivdep")
#else
#define CALOR_VECTORIZE
#endif
