// A tensor and its name, and lists of them: what files, module states and optimizer states are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calor/tensor.h"

namespace calor {

struct NamedTensor {
    std::string name;
    Tensor value;
};

/// In a meaningful order; names are unique where a file or a module made the list.
using NamedTensors = std::vector<NamedTensor>;

/// The entry of this name, or null.
inline const Tensor* find_tensor(const NamedTensors& list, std::string_view name) {
    for (const NamedTensor& entry : list) {
        if (entry.name == name) return &entry.value;
    }
    return nullptr;
}

}  // namespace calor
