#include "device/cuda/cuda_api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "device/gpu/symbols.h"

namespace calor::cuda {
namespace {

bool fill(DriverApi& a) {
    void* lib = open_library({"libcuda.so.1"});
    if (!lib) return false;
    gpu::Symbols find(lib);
    find("cuInit", a.init);
    find("cuDriverGetVersion", a.driver_version);
    find("cuGetErrorName", a.error_name);
    find("cuGetErrorString", a.error_string);
    find("cuDeviceGetCount", a.device_count);
    find("cuDeviceGet", a.device_get);
    find("cuDeviceGetName", a.device_name);
    find("cuDeviceTotalMem_v2", a.device_memory);
    find("cuDeviceGetAttribute", a.device_attribute);
    find("cuDevicePrimaryCtxRetain", a.retain_context);
    find("cuCtxSetCurrent", a.set_context);
    find("cuMemGetInfo_v2", a.memory_info);
    find("cuMemAlloc_v2", a.allocate);
    find("cuMemFree_v2", a.free);
    find("cuMemHostAlloc", a.allocate_host);
    find("cuMemFreeHost", a.free_host);
    find("cuMemcpyHtoDAsync_v2", a.upload);
    find("cuMemcpyDtoHAsync_v2", a.download);
    find("cuMemcpyDtoDAsync_v2", a.copy);
    find("cuMemsetD8Async", a.fill);
    find("cuStreamCreate", a.stream_create);
    find("cuStreamSynchronize", a.stream_synchronize);
    find("cuEventCreate", a.event_create);
    find("cuEventRecord", a.event_record);
    find("cuEventQuery", a.event_query);
    find("cuEventSynchronize", a.event_synchronize);
    find("cuEventElapsedTime", a.event_elapsed);
    find("cuEventDestroy_v2", a.event_destroy);
    find("cuModuleLoadData", a.module_load);
    find("cuModuleUnload", a.module_unload);
    find("cuModuleGetFunction", a.module_function);
    find("cuFuncSetAttribute", a.function_attribute);
    find("cuLaunchKernel", a.launch);
    return find.whole() && a.init(0) == 0;
}

bool fill(CompilerApi& a) {
    void* lib = open_library({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"});
    if (!lib) return false;
    gpu::Symbols find(lib);
    find("nvrtcVersion", a.version);
    find("nvrtcGetNumSupportedArchs", a.count_architectures);
    find("nvrtcGetSupportedArchs", a.architectures);
    find("nvrtcGetErrorString", a.error_string);
    find("nvrtcCreateProgram", a.create);
    find("nvrtcCompileProgram", a.compile);
    find("nvrtcDestroyProgram", a.destroy);
    find("nvrtcGetProgramLogSize", a.log_size);
    find("nvrtcGetProgramLog", a.log);
    find("nvrtcGetCUBINSize", a.cubin_size);
    find("nvrtcGetCUBIN", a.cubin);
    find("nvrtcGetPTXSize", a.ptx_size);
    find("nvrtcGetPTX", a.ptx);
    return find.whole();
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
