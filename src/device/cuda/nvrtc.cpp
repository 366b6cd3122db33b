#include "device/cuda/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/cuda/cuda_api.h"

namespace calor::cuda {
namespace {

// No fast arithmetic: divisions and roots are rounded correctly, subnormals are kept, and a * b + c rounds twice unless
// a kernel says fma.
constexpr const char* fixed_options[] = {"--std=c++17",       "--fmad=false", "--prec-div=true",
                                         "--prec-sqrt=true",  "--ftz=false",  "--device-as-default-execution-space",
                                         "--disable-warnings"};

std::vector<int> known_architectures(const CompilerApi& api) {
    int count = 0;
    api.count_architectures(&count);
    std::vector<int> list(static_cast<std::size_t>(count));
    if (count > 0) api.architectures(list.data());
    return list;
}

template <class Size, class Get> std::string text_of(Handle program, Size size, Get get) {
    std::size_t bytes = 0;
    if (size(program, &bytes) != 0 || bytes == 0) return {};
    std::string text(bytes, '\0');
    get(program, text.data());
    return text;
}

}  // namespace

bool compiler_available() { return compiler_api() != nullptr; }

std::string compiler_version() {
    const CompilerApi* api = compiler_api();
    if (!api) return "no NVRTC";
    int major = 0, minor = 0;
    api->version(&major, &minor);
    return fmt::format("NVRTC {}.{}", major, minor);
}

std::string compile_options() {
    std::string text;
    for (const char* o : fixed_options) text += (text.empty() ? "" : " ") + std::string(o);
    return text;
}

gpu::Compiled compile(const std::string& text, const std::string& path, int capability) {
    const CompilerApi* api = compiler_api();
    if (!api) return {{}, "libnvrtc was not found: install CUDA's runtime compiler, or set CUDA_HOME"};
    const std::vector<int> known = known_architectures(*api);
    const bool native = std::ranges::find(known, capability) != known.end();
    int target = capability;
    if (!native) {
        target = 0;
        for (const int a : known) target = a < capability ? std::max(target, a) : target;
        if (target == 0) return {{}, fmt::format("{} compiles for no sm_{}", compiler_version(), capability)};
    }
    const std::string architecture = fmt::format("--gpu-architecture={}_{}", native ? "sm" : "compute", target);
    std::vector<const char*> options(std::begin(fixed_options), std::end(fixed_options));
    options.push_back(architecture.c_str());
    Handle program = nullptr;
    if (const Status s = api->create(&program, text.c_str(), path.c_str(), 0, nullptr, nullptr); s != 0) {
        return {{}, api->error_string(s)};
    }
    const Status status = api->compile(program, static_cast<int>(options.size()), options.data());
    gpu::Compiled result;
    result.log = text_of(program, api->log_size, api->log);
    while (!result.log.empty() && (result.log.back() == '\0' || result.log.back() == '\n')) result.log.pop_back();
    if (status == 0) {
        result.binary =
            native ? text_of(program, api->cubin_size, api->cubin) : text_of(program, api->ptx_size, api->ptx);
    } else if (result.log.empty()) {
        result.log = api->error_string(status);
    }
    api->destroy(&program);
    return result;
}

}  // namespace calor::cuda
