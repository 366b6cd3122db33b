#include "device/opencl/opencl_api.h"

#include <dlfcn.h>

#include "device/gpu/symbols.h"

namespace calor::opencl {
namespace {

bool fill_table(Api& a) {
    void* lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return false;
    gpu::Symbols find(lib);
    find("clGetPlatformIDs", a.platform_ids);
    find("clGetPlatformInfo", a.platform_info);
    find("clGetDeviceIDs", a.device_ids);
    find("clGetDeviceInfo", a.device_info);
    find("clCreateContext", a.create_context);
    find("clCreateCommandQueue", a.create_queue);
    find("clCreateBuffer", a.create_buffer);
    find("clReleaseMemObject", a.release_buffer);
    find("clCreateProgramWithSource", a.create_program);
    find("clCreateProgramWithBinary", a.program_of_binary);
    find("clBuildProgram", a.build);
    find("clGetProgramBuildInfo", a.build_info);
    find("clGetProgramInfo", a.program_info);
    find("clReleaseProgram", a.release_program);
    find("clCreateKernel", a.create_kernel);
    find("clReleaseKernel", a.release_kernel);
    find("clSetKernelArg", a.set_argument);
    find("clEnqueueNDRangeKernel", a.launch);
    find("clEnqueueWriteBuffer", a.write);
    find("clEnqueueReadBuffer", a.read);
    find("clEnqueueCopyBuffer", a.copy);
    find("clEnqueueFillBuffer", a.fill);
    find("clEnqueueMarkerWithWaitList", a.marker);
    find("clWaitForEvents", a.wait);
    find("clGetEventInfo", a.event_info);
    find("clGetEventProfilingInfo", a.event_times);
    find("clReleaseEvent", a.release_event);
    find("clFinish", a.finish);
    find("clFlush", a.flush);
    return find.whole();
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
