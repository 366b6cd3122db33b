#include "device/opencl/opencl_api.h"

#include <dlfcn.h>

namespace calor::opencl {
namespace {

template <class F> void find(void* library, const char* name, F& function, bool& whole) {
    function = reinterpret_cast<F>(dlsym(library, name));
    whole = whole && function != nullptr;
}

bool fill_table(Api& a) {
    void* lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return false;
    bool whole = true;
    find(lib, "clGetPlatformIDs", a.platform_ids, whole);
    find(lib, "clGetPlatformInfo", a.platform_info, whole);
    find(lib, "clGetDeviceIDs", a.device_ids, whole);
    find(lib, "clGetDeviceInfo", a.device_info, whole);
    find(lib, "clCreateContext", a.create_context, whole);
    find(lib, "clCreateCommandQueue", a.create_queue, whole);
    find(lib, "clCreateBuffer", a.create_buffer, whole);
    find(lib, "clReleaseMemObject", a.release_buffer, whole);
    find(lib, "clCreateProgramWithSource", a.create_program, whole);
    find(lib, "clCreateProgramWithBinary", a.program_of_binary, whole);
    find(lib, "clBuildProgram", a.build, whole);
    find(lib, "clGetProgramBuildInfo", a.build_info, whole);
    find(lib, "clGetProgramInfo", a.program_info, whole);
    find(lib, "clReleaseProgram", a.release_program, whole);
    find(lib, "clCreateKernel", a.create_kernel, whole);
    find(lib, "clReleaseKernel", a.release_kernel, whole);
    find(lib, "clSetKernelArg", a.set_argument, whole);
    find(lib, "clEnqueueNDRangeKernel", a.launch, whole);
    find(lib, "clEnqueueWriteBuffer", a.write, whole);
    find(lib, "clEnqueueReadBuffer", a.read, whole);
    find(lib, "clEnqueueCopyBuffer", a.copy, whole);
    find(lib, "clEnqueueFillBuffer", a.fill, whole);
    find(lib, "clEnqueueMarkerWithWaitList", a.marker, whole);
    find(lib, "clWaitForEvents", a.wait, whole);
    find(lib, "clGetEventInfo", a.event_info, whole);
    find(lib, "clReleaseEvent", a.release_event, whole);
    find(lib, "clFinish", a.finish, whole);
    find(lib, "clFlush", a.flush, whole);
    return whole;
}

}  // namespace

const Api* api() {
    static Api table{};
    static const bool there = fill_table(table);
    return there ? &table : nullptr;
}

const char* name_of_status(Status status) {
    switch (status) {
        case -4: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
        case -5: return "CL_OUT_OF_RESOURCES";
        case -6: return "CL_OUT_OF_HOST_MEMORY";
        case -11: return "CL_BUILD_PROGRAM_FAILURE";
        case -14: return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
        case -30: return "CL_INVALID_VALUE";
        case -38: return "CL_INVALID_MEM_OBJECT";
        case -42: return "CL_INVALID_BINARY";
        case -43: return "CL_INVALID_BUILD_OPTIONS";
        case -46: return "CL_INVALID_KERNEL_NAME";
        case -49: return "CL_INVALID_ARG_INDEX";
        case -50: return "CL_INVALID_ARG_VALUE";
        case -51: return "CL_INVALID_ARG_SIZE";
        case -52: return "CL_INVALID_KERNEL_ARGS";
        case -54: return "CL_INVALID_WORK_GROUP_SIZE";
        case -55: return "CL_INVALID_WORK_ITEM_SIZE";
        case -61: return "CL_INVALID_BUFFER_SIZE";
        case -63: return "CL_INVALID_GLOBAL_WORK_SIZE";
        default: return "an OpenCL error";
    }
}

}  // namespace calor::opencl
