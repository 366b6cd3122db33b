// CALOR_CHOOSE_ROWS(function, targets): the body of a function that calls `function` of the best namespace among those
// that this file was compiled for. Highway's own dispatch table isn't used: its index depends on HWY_DISABLED_TARGETS,
// which differs between our files. To be included after all targets, inside #if HWY_ONCE.
#pragma once

#if HWY_TARGETS & HWY_AVX3 && HWY_STATIC_TARGET != HWY_AVX3
#define CALOR_CHOOSE_AVX3(function, targets) \
    if (targets & HWY_AVX3) return N_AVX3::function();
#else
#define CALOR_CHOOSE_AVX3(function, targets)
#endif
#if HWY_TARGETS & HWY_AVX2 && HWY_STATIC_TARGET != HWY_AVX2
#define CALOR_CHOOSE_AVX2(function, targets) \
    if (targets & HWY_AVX2) return N_AVX2::function();
#else
#define CALOR_CHOOSE_AVX2(function, targets)
#endif
#if HWY_TARGETS & HWY_SSE4 && HWY_STATIC_TARGET != HWY_SSE4
#define CALOR_CHOOSE_SSE4(function, targets) \
    if (targets & HWY_SSE4) return N_SSE4::function();
#else
#define CALOR_CHOOSE_SSE4(function, targets)
#endif

#define CALOR_CHOOSE_ROWS(function, targets) \
    static_cast<void>(targets);              \
    CALOR_CHOOSE_AVX3(function, targets)     \
    CALOR_CHOOSE_AVX2(function, targets)     \
    CALOR_CHOOSE_SSE4(function, targets)     \
    return HWY_STATIC_DISPATCH(function)();
