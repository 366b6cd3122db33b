# calor_embed(target file symbol): compiles the bytes of a text file into `target`. The symbol may be qualified:
# calor_embed(calor_core errors.json calor::embedded::errors_json) defines
#     namespace calor::embedded { extern const char errors_json[]; extern const std::size_t errors_json_size; }
# where the array ends in a NUL that the size does not count. The file is a dependency: a change rebuilds.
function(calor_embed target file symbol)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    string(REPLACE "::" "_" stem ${symbol})
    set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${stem}.cpp)
    add_custom_command(
        OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${output} -DSYMBOL=${symbol} -P
                ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        COMMENT "Embedding ${file}"
        VERBATIM)
    # A custom command is only visible in its own directory; the target may have been made in a parent one.
    add_custom_target(${target}_${stem} DEPENDS ${output})
    add_dependencies(${target} ${target}_${stem})
    target_sources(${target} PRIVATE ${output})
endfunction()
