# cmake -DINPUT=file -DOUTPUT=file.cpp -DSYMBOL=a::b::name -P embed.cmake: writes a C++ source that holds the file's
# text as one raw string literal: nothing to escape, and fast to compile. With KERNEL=name and SHOWN=path in place of
# SYMBOL: a gpu::KernelFile.
cmake_minimum_required(VERSION 3.25)
file(READ ${INPUT} text)
if(KERNEL)
    file(WRITE ${OUTPUT} "// Generated from ${SHOWN}.\n#include \"device/gpu/kernel_file.h\"\n\nnamespace calor::kernels {\n"
         "extern const gpu::KernelFile ${KERNEL};\n"
         "const gpu::KernelFile ${KERNEL} = {\"${SHOWN}\", R\"embed_(${text})embed_\"};\n"
         "}  // namespace calor::kernels\n")
    return()
endif()
string(REGEX MATCH "^(.*)::([^:]+)$" qualified ${SYMBOL})
set(namespace "${CMAKE_MATCH_1}")
set(name "${CMAKE_MATCH_2}")
if(NOT qualified)
    set(name ${SYMBOL})
endif()

set(delimiter "embed_")
if(text MATCHES "\\)${delimiter}\"")
    message(FATAL_ERROR "${INPUT} contains )${delimiter}\", the end of the literal that would hold it")
endif()

cmake_path(GET INPUT FILENAME file_name)
set(code "// Generated from ${file_name}.\n#include <cstddef>\n\n")
if(namespace)
    string(APPEND code "namespace ${namespace} {\n")
endif()
string(APPEND code "extern const char ${name}[];\nextern const std::size_t ${name}_size;\n")
string(APPEND code "const char ${name}[] = R\"${delimiter}(${text})${delimiter}\"")
string(APPEND code ";\nconst std::size_t ${name}_size = sizeof(${name}) - 1;\n")
if(namespace)
    string(APPEND code "}  // namespace ${namespace}\n")
endif()
file(WRITE ${OUTPUT} "${code}")
