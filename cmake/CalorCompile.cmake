# calor_compile_options(target [PLAIN]): the flags of our own code, never passed on to users of the library. PLAIN code
# is not instrumented by sanitizers: its objects are those of the plain build, which ccache serves.
# -ffp-contract=off and no -ffast-math: results are the same bits on every machine. -fno-math-errno only lets the
# compiler inline sqrt and the like; it changes no value.
#
# The address sanitizer instruments the library, which watches its memory on behalf of plain tests. The thread sanitizer
# instruments the layers that share anything among threads (see calor_layer) and their tests.
if(CALOR_SANITIZE)
    set(CALOR_SANITIZED -fsanitize=${CALOR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
    if(CALOR_SANITIZE MATCHES "address")
        # Half of the compile time, for what the address sanitizer sees as an access to memory that is nobody's.
        list(APPEND CALOR_SANITIZED -fno-sanitize=null,object-size,pointer-overflow)
    endif()
    add_link_options(-fsanitize=${CALOR_SANITIZE})
    set(CALOR_SANITIZED_WITHOUT HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3|HWY_AVX3_DL)
    set(CALOR_SANITIZED_FOR "")
    include(CheckCXXSourceRuns)
    check_cxx_source_runs("int main() { return !(__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")); }"
                          CALOR_RUNS_AVX2)
    if(CALOR_RUNS_AVX2 AND CALOR_SANITIZE MATCHES "address")  # the one that most machines use
        set(CALOR_SANITIZED_WITHOUT HWY_AVX3|HWY_AVX3_DL)
        set(CALOR_SANITIZED_FOR -march=haswell -maes)
    endif()
endif()

function(calor_compile_options target)
    cmake_parse_arguments(arg "PLAIN" "" "" ${ARGN})
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -fno-math-errno -ffp-contract=off)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
        # Loops that must stay without branches combine conditions with & and | on purpose.
        target_compile_options(${target} PRIVATE -Wno-bitwise-instead-of-logical)
    endif()
    if(CALOR_SANITIZE AND NOT arg_PLAIN)
        # One instruction set, which the sources' loops over targets find: sanitized code compiles slowly.
        target_compile_definitions(${target} PRIVATE "HWY_BROKEN_TARGETS=(${CALOR_SANITIZED_WITHOUT})")
        target_compile_options(${target} PRIVATE ${CALOR_SANITIZED} ${CALOR_SANITIZED_FOR})
    endif()
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()

# calor_precompile(target HEADER precompiled.h | REUSE other): what most sources of the target include anyway. Only g++:
# its results come back from ccache, and clang's build shows which source forgot an #include.
function(calor_precompile target)
    cmake_parse_arguments(arg "" "HEADER;REUSE" "" ${ARGN})
    if(CALOR_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        if(arg_REUSE)
            target_precompile_headers(${target} REUSE_FROM ${arg_REUSE})
        else()
            target_precompile_headers(${target} PRIVATE ${arg_HEADER})
        endif()
        # Sources with flags of their own do without: a precompiled header belongs to one set of flags.
        get_target_property(sources ${target} SOURCES)
        foreach(source IN LISTS sources)
            get_source_file_property(flags ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
            if(flags)
                set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
            endif()
        endforeach()
        target_compile_options(${target} PRIVATE -fpch-preprocess)
    endif()
endfunction()
