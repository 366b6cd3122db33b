// The dialect of .kernel files: from a kernel's text to the text that a target's compiler takes. docs/kernels.md
// explains the words. A kernel's head is read here, so that its arguments can be checked at launch:
//     KERNEL(scale, IN(X, x), OUT(Y, y), SIZE(count), VALUE(f32, factor)) { ... }
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calor/dtype.h"
#include "device/gpu/driver.h"
#include "device/gpu/kernel_file.h"

namespace calor::gpu {

/// One parameter of a kernel's head.
struct Parameter {
    enum class Kind : std::uint8_t { in, out, inout, size, value, layout, structure };
    Kind kind = Kind::in;
    std::string type;  ///< of a buffer's elements, a value or a structure; of a layout: rank and operands
    std::string name;
};

/// Everything that decides the text of a variant.
struct Source {
    const KernelFile* file = nullptr;
    std::string entry;
    std::string constants;     ///< lines "#define NAME VALUE"
    bool wide_index = false;   ///< INDEX has 64 bits
    Extent threads;            ///< of a group
    std::uint32_t dtypes = 0;  ///< bit 1 << dtype for each dtype that constants name

    void use(DType dtype) { dtypes |= 1U << static_cast<unsigned>(dtype); }
};

/// The name of a dtype in kernels: name_of(), and "b8" for bool.
std::string_view kernel_name_of(DType dtype);

/// The parameters of a kernel; empty when the file has no such entry. Throws InternalError for a head that cannot be
/// read.
std::vector<Parameter> parameters_of(const KernelFile& file, std::string_view entry);

/// The whole text for a target's compiler.
std::string translate(const Source& source, DeviceKind target, bool f64);

}  // namespace calor::gpu
