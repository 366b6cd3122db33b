// A .kernel file, as the library holds it. Alone, since every embedded file includes it.
#pragma once

namespace calor::gpu {

/// A .kernel file, or a text that was emitted; lives as long as the program.
struct KernelFile {
    const char* path;  ///< from the project's root, for messages
    const char* text;
};

}  // namespace calor::gpu
