# calor_add_embedded(target stem output): a generated source joins the target.
function(calor_add_embedded target stem output)
    # A custom command is only visible in its own directory; the target may have been made in a parent one.
    add_custom_target(${target}_${stem} DEPENDS ${output})
    add_dependencies(${target} ${target}_${stem})
    target_sources(${target} PRIVATE ${output})
    set_source_files_properties(${output} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

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
    calor_add_embedded(${target} ${stem} ${output})
endfunction()

# calor_kernels(target file.kernel...): GPU kernels of a family. src/ops/view/copy.kernel becomes
#     namespace calor::kernels { extern const gpu::KernelFile view_copy; }
# which the family declares where it launches them.
function(calor_kernels target)
    foreach(file IN LISTS ARGN)
        cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
        cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE shown)
        cmake_path(GET path STEM name)
        cmake_path(GET path PARENT_PATH folder)
        cmake_path(GET folder FILENAME family)
        set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${family}_${name}.cpp)
        add_custom_command(
            OUTPUT ${output}
            COMMAND ${CMAKE_COMMAND} -DINPUT=${path} -DOUTPUT=${output} -DKERNEL=${family}_${name} -DSHOWN=${shown} -P
                    ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
            DEPENDS ${path} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
            COMMENT "Embedding ${shown}"
            VERBATIM)
        calor_add_embedded(${target} ${family}_${name} ${output})
    endforeach()
endfunction()
