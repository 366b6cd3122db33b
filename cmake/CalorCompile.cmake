# calor_compile_options(target): the flags of our own code, never passed on to users of the library.
# -ffp-contract=off and no -ffast-math: results are the same bits on every machine. -fno-math-errno only lets the
# compiler inline sqrt and the like; it changes no value.
if(CALOR_SANITIZE)
    add_compile_options(-fsanitize=${CALOR_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${CALOR_SANITIZE})
endif()

function(calor_compile_options target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -fno-math-errno -ffp-contract=off)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
        # Loops that must stay without branches combine conditions with & and | on purpose.
        target_compile_options(${target} PRIVATE -Wno-bitwise-instead-of-logical)
    endif()
    target_compile_definitions(
        ${target} PRIVATE $<$<BOOL:${CALOR_OPENMP}>:CALOR_OPENMP=1> $<$<BOOL:${CALOR_ONEDNN}>:CALOR_ONEDNN=1>)
    if(CALOR_SANITIZE MATCHES "thread")  # fewer instruction sets: sanitized code compiles slowly
        target_compile_definitions(${target} PRIVATE "HWY_BROKEN_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3|HWY_AVX3_DL)")
    elseif(CALOR_SANITIZE)
        target_compile_definitions(${target} PRIVATE "HWY_BROKEN_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")
    endif()
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()
