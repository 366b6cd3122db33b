# Finds oneDNN by its header and library (packages differ in whether they bring a CMake configuration).
# Defines DNNL::dnnl, DNNL_FOUND, DNNL_VERSION.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

set(DNNL_VERSION "")
foreach(dnnl_header dnnl_version.h oneapi/dnnl/dnnl_version.h)
    if(DNNL_INCLUDE_DIR AND NOT DNNL_VERSION AND EXISTS ${DNNL_INCLUDE_DIR}/${dnnl_header})
        file(READ ${DNNL_INCLUDE_DIR}/${dnnl_header} dnnl_text)
        if(dnnl_text MATCHES "DNNL_VERSION_MAJOR +([0-9]+).*DNNL_VERSION_MINOR +([0-9]+).*DNNL_VERSION_PATCH +([0-9]+)")
            set(DNNL_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
        endif()
    endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION)
if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES
                                                                                   ${DNNL_INCLUDE_DIR})
endif()
