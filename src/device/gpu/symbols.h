// Symbols: the functions of a library that was opened at run time, looked up by name into a table of pointers.
#pragma once

#include <dlfcn.h>

namespace calor::gpu {

class Symbols {
public:
    explicit Symbols(void* library) : library_(library) {}
    template <class F> void operator()(const char* name, F& function) {
        function = reinterpret_cast<F>(dlsym(library_, name));
        whole_ = whole_ && function != nullptr;
    }
    /// Every name was there.
    bool whole() const { return whole_; }

private:
    void* library_;
    bool whole_ = true;
};

}  // namespace calor::gpu
