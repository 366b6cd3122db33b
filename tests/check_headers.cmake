# cmake -DINCLUDE=include -DCXX=... -P check_headers.cmake: every public header compiles alone, without warnings.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/calor/*.h)
foreach(header IN LISTS headers)
    execute_process(
        COMMAND ${CXX} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror -I${INCLUDE} -x c++ -include
                ${header} /dev/null
        RESULT_VARIABLE status
        ERROR_VARIABLE errors)
    if(NOT status EQUAL 0)
        message(SEND_ERROR "<${header}> does not compile alone:\n${errors}")
    endif()
endforeach()
list(LENGTH headers count)
if(count EQUAL 0)
    message(FATAL_ERROR "no headers under ${INCLUDE}")
endif()
message("${count} headers compile alone")
