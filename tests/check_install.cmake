# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCXX=... -DLIBDIR=... -DSTATIC=0|1 -DBUILD_TYPE=... -DFLAGS=... -P check_install.cmake
# Installs the build tree, moves the installed tree elsewhere, and builds and runs tests/consumer against it: once with
# find_package, once with pkg-config and a plain compiler line.
cmake_minimum_required(VERSION 3.25)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " line)
        message(FATAL_ERROR "${line}\nended with ${status}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/consumer -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/moved
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
message("find_package: ${output}")
if(EXISTS ${WORK}/moved/bin/calor)
    run(${WORK}/moved/bin/calor --version)
    message("program: ${output}")
endif()

find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${WORK}/moved/${LIBDIR}/pkgconfig)
set(static "")
if(STATIC)
    set(static --static)
endif()
run(${pkg_config} ${static} --cflags --libs calor)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CXX} -std=c++20 ${SOURCE}/tests/consumer/main.cpp -o ${WORK}/plain ${flags} -Wl,-rpath,${WORK}/moved/${LIBDIR})
run(${WORK}/plain)
message("pkg-config: ${output}")
