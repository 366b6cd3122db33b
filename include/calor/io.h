// Saving and loading. The format is safetensors (https://github.com/huggingface/safetensors, "Format"): eight bytes
// with the length of a JSON header, the header (name -> dtype, shape, offsets), and the elements, little-endian,
// row-major.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calor/named_tensor.h"
#include "calor/nn/module.h"

namespace calor::io {

/// Free text about a file: unique keys, any UTF-8 values.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a file holds.
struct TensorFile {
    NamedTensors tensors;  ///< in the order of their bytes in the file
    Metadata metadata;

    /// The tensor of this name. Throws IoError [io/missing].
    const Tensor& at(std::string_view name, const Where& where = Where::current()) const;
    bool contains(std::string_view name) const { return find_tensor(tensors, name) != nullptr; }
};

/// Writes tensors of any dtype; they are evaluated together first. The file appears under its name only when it is
/// complete and on the disk: a crash leaves the old file or the new one, never a part. Elements of one size lie
/// together, the largest first, so that every tensor is aligned. Throws IoError [io/write]; ValueError [io/name] for a
/// name that is used twice, is
/// "__metadata__" or is not UTF-8; ValueError [tensor/undefined].
void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {},
          const Where& where = Where::current());

/// Reads a file. Everything in the header is checked before memory is reserved, and no more is reserved than the file
/// has bytes. Throws IoError [io/open], [io/truncated], [io/header-size] above 100 MB, [io/header] for what is not JSON
/// or not of this format, [io/duplicate], [io/element-type], [io/offsets] for holes, overlaps and sizes that do not
/// follow from the shape.
TensorFile load(const std::string& path, const Where& where = Where::current());

struct LoadOptions {
    bool strict = true;  ///< refuse names that only the file or only the network has
};

namespace detail {
void assign_state(const nn::State& state, const TensorFile& file, const std::string& path, const LoadOptions& options,
                  const Where& where);
}  // namespace detail

/// Writes parameters and buffers under their names in the network: "conv.weight", "blocks.0.bias" (PyTorch's names).
template <class Net>
void save_model(const std::string& path, const Net& net, const Metadata& metadata = {},
                const Where& where = Where::current()) {
    save(path, nn::named_tensors(nn::state(net)), metadata, where);
}

/// Sets parameters and buffers from a file, all or none; returns the file's metadata. Floating dtypes are converted to
/// the network's. Throws what load() throws, and IoError [io/missing], [io/unexpected] (each lists the names),
/// [io/mismatch] for another shape or kind of dtype.
template <class Net>
Metadata load_model(const std::string& path, Net& net, const LoadOptions& options = {},
                    const Where& where = Where::current()) {
    TensorFile file = load(path, where);
    detail::assign_state(nn::state(net), file, path, options, where);
    return std::move(file.metadata);
}

}  // namespace calor::io
