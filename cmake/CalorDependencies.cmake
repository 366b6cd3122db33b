# The system packages that calor builds on. CALOR_FIND_DEPENDENCIES collects what a static libcalor needs again when
# it is linked; the installed calorConfig.cmake repeats it.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(hwy REQUIRED)
find_package(nlohmann_json REQUIRED)
set(CALOR_FIND_DEPENDENCIES Threads fmt ZLIB hwy)

if(CALOR_OPENMP)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    list(APPEND CALOR_FIND_DEPENDENCIES OpenMP)
endif()
if(CALOR_ONEDNN)
    find_package(DNNL REQUIRED)
    list(APPEND CALOR_FIND_DEPENDENCIES DNNL)
endif()

find_program(CALOR_CCACHE ccache)
if(CALOR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/compile_cached.sh ${CALOR_CCACHE})
endif()
