// The functions of CUDA's driver and of NVRTC that calor calls, found at run time: no CUDA header is needed to build,
// and the same program starts on machines without the driver. Declared after NVIDIA's documentation of the two
// interfaces.
#pragma once

#include <cstddef>
#include <string>

namespace calor::cuda {

using Status = int;  ///< CUresult and nvrtcResult; 0: success
using DeviceHandle = int;
using Pointer = unsigned long long;  ///< CUdeviceptr
using Handle = void*;                ///< contexts, streams, modules, functions, events, programs

/// The driver's attributes by number (CUdevice_attribute).
enum Attribute : int {
    max_threads_per_block = 1,
    max_shared_memory_per_block = 8,
    warp_size = 10,
    multiprocessor_count = 16,
    compute_capability_major = 75,
    compute_capability_minor = 76,
    max_shared_memory_optin = 97,
};

/// Null when libcuda.so.1 is not installed or has no device.
struct DriverApi {
    Status (*init)(unsigned);
    Status (*driver_version)(int*);
    Status (*error_name)(Status, const char**);
    Status (*error_string)(Status, const char**);
    Status (*device_count)(int*);
    Status (*device_get)(DeviceHandle*, int);
    Status (*device_name)(char*, int, DeviceHandle);
    Status (*device_memory)(std::size_t*, DeviceHandle);
    Status (*device_attribute)(int*, int, DeviceHandle);
    Status (*retain_context)(Handle*, DeviceHandle);
    Status (*set_context)(Handle);
    Status (*memory_info)(std::size_t*, std::size_t*);
    Status (*allocate)(Pointer*, std::size_t);
    Status (*free)(Pointer);
    Status (*allocate_host)(Handle*, std::size_t, unsigned);
    Status (*free_host)(Handle);
    Status (*upload)(Pointer, const void*, std::size_t, Handle);
    Status (*download)(void*, Pointer, std::size_t, Handle);
    Status (*copy)(Pointer, Pointer, std::size_t, Handle);
    Status (*fill)(Pointer, unsigned char, std::size_t, Handle);
    Status (*stream_create)(Handle*, unsigned);
    Status (*stream_synchronize)(Handle);
    Status (*event_create)(Handle*, unsigned);
    Status (*event_record)(Handle, Handle);
    Status (*event_query)(Handle);
    Status (*event_synchronize)(Handle);
    Status (*event_elapsed)(float*, Handle, Handle);
    Status (*event_destroy)(Handle);
    Status (*module_load)(Handle*, const void*);
    Status (*module_unload)(Handle);
    Status (*module_function)(Handle*, Handle, const char*);
    Status (*function_attribute)(Handle, int, int);
    Status (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                     void**);
};
const DriverApi* driver_api();

struct CompilerApi {
    Status (*version)(int*, int*);
    Status (*count_architectures)(int*);
    Status (*architectures)(int*);
    const char* (*error_string)(Status);
    Status (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*);
    Status (*compile)(Handle, int, const char* const*);
    Status (*destroy)(Handle*);
    Status (*log_size)(Handle, std::size_t*);
    Status (*log)(Handle, char*);
    Status (*cubin_size)(Handle, std::size_t*);
    Status (*cubin)(Handle, char*);
    Status (*ptx_size)(Handle, std::size_t*);
    Status (*ptx)(Handle, char*);
};
/// Null when libnvrtc is not installed.
const CompilerApi* compiler_api();

/// Opens the first library that is there: by name, then in the folders where CUDA is usually installed.
void* open_library(std::initializer_list<const char*> names);

}  // namespace calor::cuda
