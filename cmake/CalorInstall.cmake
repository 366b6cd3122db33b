# What `cmake --install` puts where: the library, the headers, the program, the CMake package and calor.pc. The tree
# can be moved afterwards: nothing in it holds an absolute path of its own.
include(CMakePackageConfigHelpers)
set(calor_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/calor)

install(TARGETS calor EXPORT calorTargets)
if(TARGET calor_cli)
    install(TARGETS calor_cli)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/calor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT calorTargets NAMESPACE calor:: DESTINATION ${calor_package_dir})

# A shared libcalor carries its dependencies; a static one asks its user to find them again.
set(calor_find_dependencies "")
set(calor_pc_private "")
if(NOT BUILD_SHARED_LIBS)
    set(calor_find_dependencies ${CALOR_FIND_DEPENDENCIES})
    list(TRANSFORM calor_find_dependencies REPLACE "(.+)" "find_dependency(\\1)")
    list(JOIN calor_find_dependencies "\n" calor_find_dependencies)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/calorConfig.cmake.in ${PROJECT_BINARY_DIR}/calorConfig.cmake
                              INSTALL_DESTINATION ${calor_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/calorConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/calorConfig.cmake ${PROJECT_BINARY_DIR}/calorConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindDNNL.cmake DESTINATION ${calor_package_dir})

# pkg-config: `pkg-config --static` adds the private lines for a static library.
set(calor_pc_libs_private "-lz -pthread ${CMAKE_DL_LIBS}")
string(REPLACE " dl" " -ldl" calor_pc_libs_private "${calor_pc_libs_private}")
if(CALOR_ONEDNN)
    string(APPEND calor_pc_libs_private " -ldnnl")
endif()
if(CALOR_OPENMP)
    string(APPEND calor_pc_libs_private " ${OpenMP_CXX_FLAGS}")
endif()
file(RELATIVE_PATH calor_prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/calor.pc.in ${PROJECT_BINARY_DIR}/calor.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/calor.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
