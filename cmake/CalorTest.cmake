# calor_test(name SOURCES a.cpp b.cpp [LIBRARIES ...] [THREADS] [LOOPS] [PLAIN] [GPU]): a GoogleTest program and one CTest entry.
# Tests may include src/ headers: the library exports everything. THREADS marks the tests that have something to show to
# the thread sanitizer; its build leaves the others out. LOOPS marks tests with long loops of their own: only they are
# optimized, the others would take longer to compile than to run. PLAIN marks tests of the sources' text and of GPUs,
# which show nothing to sanitizers. GPU runs the program once more as opencl/name, with an
# OpenCL device as the default device, bands around every block and poisoned memory, in the static variant of machines that
# have an OpenCL driver.
find_package(GTest REQUIRED)

set(CALOR_TEST_CACHE ${PROJECT_BINARY_DIR}/kernel-cache CACHE PATH "Where tests keep compiled GPU kernels; variants may share it")

# Two threads, so that threading is tested, and none of them spins: several programs share the cores. PoCL compiles
# kernels for longer than the tests run them, half as long without optimization.
set(CALOR_TEST_ENVIRONMENT OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 CALOR_CACHE=${CALOR_TEST_CACHE}
                           POCL_CACHE_DIR=${CALOR_TEST_CACHE}/pocl POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable)
if(CALOR_SANITIZE OR BUILD_SHARED_LIBS)
    list(APPEND CALOR_TEST_ENVIRONMENT OCL_ICD_VENDORS=none)  # OpenCL devices are tested in the static variant alone
endif()
set(CALOR_RECORDED_KERNELS ${PROJECT_BINARY_DIR}/recorded-kernels)  # every variant that the GPU tests launched
if(CALOR_SANITIZE MATCHES "address")
    list(APPEND CALOR_TEST_ENVIRONMENT ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
         UBSAN_OPTIONS=print_stacktrace=1)
endif()

set(CALOR_TEST_COMPILE "")
if(CALOR_SANITIZE MATCHES "address")
    set(CALOR_TEST_COMPILE PLAIN)
endif()

function(calor_test name)
    cmake_parse_arguments(arg "THREADS;LOOPS;PLAIN;GPU" "" "SOURCES;LIBRARIES" ${ARGN})
    if(NOT CALOR_TEST_PROGRAMS OR (CALOR_SANITIZE MATCHES "thread" AND NOT arg_THREADS) OR (CALOR_SANITIZE AND arg_PLAIN))
        return()
    endif()
    add_executable(${name}_test ${arg_SOURCES})
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    calor_compile_options(${name}_test ${CALOR_TEST_COMPILE})
    if(NOT arg_LOOPS)
        target_compile_options(${name}_test PRIVATE -O0)
        calor_precompile_tests(${name}_test)
    endif()
    target_compile_definitions(${name}_test PRIVATE CALOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE calor GTest::gtest_main fmt::fmt ${arg_LIBRARIES})
    calor_add_test(${name} COMMAND ${name}_test)
    file(GLOB opencl_drivers /etc/OpenCL/vendors/*.icd)
    if(arg_GPU AND opencl_drivers AND NOT CALOR_SANITIZE AND NOT BUILD_SHARED_LIBS)
        add_test(NAME ${CALOR_TEST_PREFIX}opencl/${name} COMMAND ${name}_test)
        set_tests_properties(
            ${CALOR_TEST_PREFIX}opencl/${name}
            PROPERTIES ENVIRONMENT "${CALOR_TEST_ENVIRONMENT};CALOR_DEVICE=opencl;CALOR_GUARD=1;CALOR_RECORD_KERNELS=${CALOR_RECORDED_KERNELS}"
                       TIMEOUT 900 COST 1000)  # first: the compilation for CUDA waits for them
        set_property(GLOBAL APPEND PROPERTY CALOR_RECORDING_TESTS ${CALOR_TEST_PREFIX}opencl/${name})
    endif()
endfunction()

# All tests that compile alike share one precompiled header.
function(calor_precompile_tests target)
    if(NOT TARGET calor_test_headers)
        file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty/tests.cpp CONTENT "int main() {}\n")
        add_executable(calor_test_headers ${PROJECT_BINARY_DIR}/empty/tests.cpp)
        calor_compile_options(calor_test_headers ${CALOR_TEST_COMPILE})
        target_compile_options(calor_test_headers PRIVATE -O0)
        target_link_libraries(calor_test_headers PRIVATE calor GTest::gtest_main fmt::fmt)
        calor_precompile(calor_test_headers HEADER ${PROJECT_SOURCE_DIR}/tests/precompiled.h)
    endif()
    calor_precompile(${target} REUSE calor_test_headers)
endfunction()

# calor_add_test(name COMMAND ...): a CTest entry with the tests' environment.
function(calor_add_test name)
    add_test(NAME ${CALOR_TEST_PREFIX}${name} ${ARGN})
    set_tests_properties(${CALOR_TEST_PREFIX}${name} PROPERTIES ENVIRONMENT "${CALOR_TEST_ENVIRONMENT}" TIMEOUT 600)
endfunction()
