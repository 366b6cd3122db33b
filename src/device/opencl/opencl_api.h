// The functions of OpenCL 1.2 that calor calls, found at run time in libOpenCL.so.1: no header is needed to build.
// Declared after the Khronos Group's OpenCL 1.2 specification.
#pragma once

#include <cstddef>
#include <cstdint>

namespace calor::opencl {

using Status = std::int32_t;
using Object = void*;  ///< platforms, devices, contexts, queues, buffers, programs, kernels, events
using Bits = std::uint64_t;
using Count = std::uint32_t;

enum : Count {
    platform_name = 0x0902,
    platform_version = 0x0901,
    device_type = 0x1000,
    max_compute_units = 0x1002,
    max_work_group_size = 0x1004,
    max_parameter_size = 0x1017,
    single_fp_config = 0x101B,
    global_memory_size = 0x101F,
    local_memory_size = 0x1023,
    device_available = 0x1027,
    compiler_available = 0x1028,
    device_name = 0x102B,
    driver_version = 0x102D,
    device_version = 0x102F,
    device_extensions = 0x1030,
    program_binary_sizes = 0x1165,
    program_binaries = 0x1166,
    program_build_log = 0x1183,
    event_status = 0x11D3,
    profiling_end = 0x1283,
};
constexpr Bits any_type = 0xFFFFFFFF, cpu_type = 2, gpu_type = 4, read_write = 1, correctly_rounded_divide = 0x80,
               profiling_queue = 2;

struct Api {
    Status (*platform_ids)(Count, Object*, Count*);
    Status (*platform_info)(Object, Count, std::size_t, void*, std::size_t*);
    Status (*device_ids)(Object, Bits, Count, Object*, Count*);
    Status (*device_info)(Object, Count, std::size_t, void*, std::size_t*);
    Object (*create_context)(const std::intptr_t*, Count, const Object*, void*, void*, Status*);
    Object (*create_queue)(Object, Object, Bits, Status*);
    Object (*create_buffer)(Object, Bits, std::size_t, void*, Status*);
    Status (*release_buffer)(Object);
    Object (*create_program)(Object, Count, const char**, const std::size_t*, Status*);
    Object (*program_of_binary)(Object, Count, const Object*, const std::size_t*, const unsigned char**, Status*,
                                Status*);
    Status (*build)(Object, Count, const Object*, const char*, void*, void*);
    Status (*build_info)(Object, Object, Count, std::size_t, void*, std::size_t*);
    Status (*program_info)(Object, Count, std::size_t, void*, std::size_t*);
    Status (*release_program)(Object);
    Object (*create_kernel)(Object, const char*, Status*);
    Status (*release_kernel)(Object);
    Status (*set_argument)(Object, Count, std::size_t, const void*);
    Status (*launch)(Object, Object, Count, const std::size_t*, const std::size_t*, const std::size_t*, Count,
                     const Object*, Object*);
    Status (*write)(Object, Object, Count, std::size_t, std::size_t, const void*, Count, const Object*, Object*);
    Status (*read)(Object, Object, Count, std::size_t, std::size_t, void*, Count, const Object*, Object*);
    Status (*copy)(Object, Object, Object, std::size_t, std::size_t, std::size_t, Count, const Object*, Object*);
    Status (*fill)(Object, Object, const void*, std::size_t, std::size_t, std::size_t, Count, const Object*, Object*);
    Status (*marker)(Object, Count, const Object*, Object*);
    Status (*wait)(Count, const Object*);
    Status (*event_info)(Object, Count, std::size_t, void*, std::size_t*);
    Status (*event_times)(Object, Count, std::size_t, void*, std::size_t*);
    Status (*release_event)(Object);
    Status (*finish)(Object);
    Status (*flush)(Object);
};
/// Null when libOpenCL.so.1 is not installed.
const Api* api();
/// "CL_OUT_OF_RESOURCES", or the number.
const char* name_of_status(Status status);

}  // namespace calor::opencl
