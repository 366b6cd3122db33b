# calor_bench(name SOURCES a.cpp [LIBRARIES ...]): a Google Benchmark program.
find_package(benchmark REQUIRED)

function(calor_bench name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name}_bench ${arg_SOURCES})
    set_target_properties(${name}_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    calor_compile_options(${name}_bench)
    target_compile_definitions(${name}_bench PRIVATE CALOR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_bench PRIVATE calor benchmark::benchmark fmt::fmt ${arg_LIBRARIES})
endfunction()
