# cmake -DREADME=... -DOUTPUT=... -P extract_readme.cmake
# Writes the first ```cpp block of the README to a file, so that a test can compile and run it as printed.
cmake_minimum_required(VERSION 3.25)
file(READ ${README} text)
string(FIND "${text}" "\n```cpp\n" start)
if(start EQUAL -1)
    message(FATAL_ERROR "${README} has no cpp block")
endif()
math(EXPR start "${start} + 8")
string(SUBSTRING "${text}" ${start} -1 text)
string(FIND "${text}" "\n```" end)
string(SUBSTRING "${text}" 0 ${end} program)
file(WRITE ${OUTPUT} "${program}\n")
