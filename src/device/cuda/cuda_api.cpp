#include "device/cuda/cuda_api.h"

#include <dlfcn.h>

#include <cstdlib>

namespace calor::cuda {
namespace {

template <class F> void find(void* library, const char* name, F& function, bool& whole) {
    function = reinterpret_cast<F>(dlsym(library, name));
    whole = whole && function != nullptr;
}

bool fill(DriverApi& a) {
    void* lib = open_library({"libcuda.so.1"});
    if (!lib) return false;
    bool whole = true;
    find(lib, "cuInit", a.init, whole);
    find(lib, "cuDriverGetVersion", a.driver_version, whole);
    find(lib, "cuGetErrorName", a.error_name, whole);
    find(lib, "cuGetErrorString", a.error_string, whole);
    find(lib, "cuDeviceGetCount", a.device_count, whole);
    find(lib, "cuDeviceGet", a.device_get, whole);
    find(lib, "cuDeviceGetName", a.device_name, whole);
    find(lib, "cuDeviceTotalMem_v2", a.device_memory, whole);
    find(lib, "cuDeviceGetAttribute", a.device_attribute, whole);
    find(lib, "cuDevicePrimaryCtxRetain", a.retain_context, whole);
    find(lib, "cuCtxSetCurrent", a.set_context, whole);
    find(lib, "cuMemGetInfo_v2", a.memory_info, whole);
    find(lib, "cuMemAlloc_v2", a.allocate, whole);
    find(lib, "cuMemFree_v2", a.free, whole);
    find(lib, "cuMemHostAlloc", a.allocate_host, whole);
    find(lib, "cuMemFreeHost", a.free_host, whole);
    find(lib, "cuMemcpyHtoDAsync_v2", a.upload, whole);
    find(lib, "cuMemcpyDtoHAsync_v2", a.download, whole);
    find(lib, "cuMemcpyDtoDAsync_v2", a.copy, whole);
    find(lib, "cuMemsetD8Async", a.fill, whole);
    find(lib, "cuStreamCreate", a.stream_create, whole);
    find(lib, "cuStreamSynchronize", a.stream_synchronize, whole);
    find(lib, "cuEventCreate", a.event_create, whole);
    find(lib, "cuEventRecord", a.event_record, whole);
    find(lib, "cuEventQuery", a.event_query, whole);
    find(lib, "cuEventSynchronize", a.event_synchronize, whole);
    find(lib, "cuEventDestroy_v2", a.event_destroy, whole);
    find(lib, "cuModuleLoadData", a.module_load, whole);
    find(lib, "cuModuleUnload", a.module_unload, whole);
    find(lib, "cuModuleGetFunction", a.module_function, whole);
    find(lib, "cuFuncSetAttribute", a.function_attribute, whole);
    find(lib, "cuLaunchKernel", a.launch, whole);
    return whole && a.init(0) == 0;
}

bool fill(CompilerApi& a) {
    void* lib = open_library({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"});
    if (!lib) return false;
    bool whole = true;
    find(lib, "nvrtcVersion", a.version, whole);
    find(lib, "nvrtcGetNumSupportedArchs", a.count_architectures, whole);
    find(lib, "nvrtcGetSupportedArchs", a.architectures, whole);
    find(lib, "nvrtcGetErrorString", a.error_string, whole);
    find(lib, "nvrtcCreateProgram", a.create, whole);
    find(lib, "nvrtcCompileProgram", a.compile, whole);
    find(lib, "nvrtcDestroyProgram", a.destroy, whole);
    find(lib, "nvrtcGetProgramLogSize", a.log_size, whole);
    find(lib, "nvrtcGetProgramLog", a.log, whole);
    find(lib, "nvrtcGetCUBINSize", a.cubin_size, whole);
    find(lib, "nvrtcGetCUBIN", a.cubin, whole);
    find(lib, "nvrtcGetPTXSize", a.ptx_size, whole);
    find(lib, "nvrtcGetPTX", a.ptx, whole);
    return whole;
}

template <class Api> const Api* opened() {
    static Api api{};
    static const bool there = fill(api);
    return there ? &api : nullptr;
}

}  // namespace

void* open_library(std::initializer_list<const char*> names) {
    const auto attempt = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
    for (const char* name : names) {
        if (void* lib = attempt(name)) return lib;
    }
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
        const char* home = std::getenv(variable);
        if (!home || !*home) continue;
        for (const char* name : names) {
            if (void* lib = attempt(std::string(home) + "/lib64/" + name)) return lib;
        }
    }
    for (const char* name : names) {
        if (void* lib = attempt(std::string("/usr/local/cuda/lib64/") + name)) return lib;
    }
    return nullptr;
}

const DriverApi* driver_api() { return opened<DriverApi>(); }
const CompilerApi* compiler_api() { return opened<CompilerApi>(); }

}  // namespace calor::cuda
