// Operation: the descriptor of one operation: shape rule, gradient rule, traits, implementations. Each lives in its
// family's folder under ops/; ops/registry.h lists them all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calor/tensor.h"
#include "core/fail.h"
#include "core/inline_vector.h"
#include "device/device.h"

namespace calor::graph {

/// Owns the attributes of a node: a plain aggregate with a defaulted ==.
class Attributes {
public:
    Attributes() = default;
    template <class T> Attributes(T value) : box_(std::make_shared<Box<T>>(std::move(value))) {}  // NOLINT
    template <class T> const T& get() const {
        auto* box = dynamic_cast<const Box<T>*>(box_.get());
        if (!box) fail_internal("attributes of another type were asked for");
        return box->value;
    }
    friend bool operator==(const Attributes& a, const Attributes& b) {
        return a.box_ == b.box_ || (a.box_ && b.box_ && a.box_->equals(*b.box_));
    }

private:
    struct Base {
        virtual ~Base() = default;
        virtual bool equals(const Base& other) const = 0;
    };
    template <class T> struct Box final : Base {
        explicit Box(T v) : value(std::move(v)) {}
        bool equals(const Base& other) const override {
            auto* same = dynamic_cast<const Box*>(&other);
            return same && same->value == value;
        }
        T value;
    };
    std::shared_ptr<const Base> box_;
};

/// Shape and dtype of one result.
struct Spec {
    Shape shape;
    DType dtype = f32;
};
using Specs = InlineVector<Spec, 1>;

/// What a shape rule sees. It throws at the caller's line, or gives the results' shapes and dtypes.
struct InferContext {
    std::string_view operation;
    const Attributes& attributes;
    std::span<const Tensor> inputs;
    const Where& where;
    template <class T> const T& attrs() const { return attributes.get<T>(); }
};

/// What a gradient rule sees. It fills grads[i] for every input that needs one; an undefined tensor means zero. Rules
/// only use public operations, so they can be differentiated again. The engine accumulates, undoes broadcasting and
/// casts.
struct GradContext {
    const Attributes& attributes;
    std::span<const Tensor> inputs;
    std::span<const Tensor> outputs;
    std::span<const Tensor> cotangents;  ///< one an output; undefined where nothing flows
    std::span<const bool> needs;         ///< one an input
    std::span<Tensor> grads;             ///< to fill
    const Where& where;
    template <class T> const T& attrs() const { return attributes.get<T>(); }
    /// The cotangent of an output, zeros where nothing flows.
    Tensor cotangent(std::size_t output = 0) const;
};

/// What an implementation sees when it runs.
struct Call {
    std::string_view operation;
    const Attributes& attributes;
    std::span<const View> inputs;
    std::span<const View> outputs;
    Backend& backend;
    const Where& where;
    template <class T> const T& attrs() const { return attributes.get<T>(); }
};

/// One way to compute an operation. Lists are ordered fastest first and end in the reference, which refuses nothing.
struct Implementation {
    std::string_view name;
    /// Null when it can run, else why not. Must be cheap.
    const char* (*why_not)(const Call& call) = nullptr;
    void (*run)(const Call& call) = nullptr;
};

enum class Format : std::uint8_t { plain, channels_last };

/// Traits, combined with |.
enum Trait : std::uint32_t {
    none = 0,
    elementwise = 1U << 0U,  ///< a row of the elementwise table
    view = 1U << 1U,         ///< may alias its first input
    linear = 1U << 2U,       ///< linear in its first input
    reduction = 1U << 3U,
    contraction = 1U << 4U,
    random = 1U << 5U,
    indexing = 1U << 6U,  ///< gathers or scatters by an index tensor
};

struct Operation {
    std::string_view name;
    std::uint32_t traits = none;
    Specs (*infer)(const InferContext& context) = nullptr;
    /// Null: the results are not differentiable.
    void (*gradient)(const GradContext& context) = nullptr;
    /// Where the results lie; null: where the first input lies, or on the default device.
    Device (*device)(const Attributes& attributes) = nullptr;
    /// Views: which input a result aliases; null: the first.
    std::size_t (*alias_of)(const Attributes& attributes, std::size_t output) = nullptr;
    /// Views: the layout of result number `index` over that input's storage; false when a copy is needed (then an
    /// implementation runs).
    bool (*alias)(const Attributes& attributes, std::size_t index, const Shape& input, const Layout& from,
                  const Shape& output, Layout& to) = nullptr;
    std::span<const Implementation> (*implementations)(DeviceKind kind) = nullptr;
    /// The same for GPUs: kernels of the dialect, and libraries that refuse other devices. Null: there are none, and
    /// the operation throws DeviceError [device/unsupported] there. A GPU's memory is never handed to a CPU
    /// implementation.
    std::span<const Implementation> (*gpu_implementations)() = nullptr;
    std::span<const Implementation> implementations_on(DeviceKind kind) const {
        if (kind == DeviceKind::cpu) return implementations ? implementations(kind) : std::span<const Implementation>();
        return gpu_implementations ? gpu_implementations() : std::span<const Implementation>();
    }
    /// Rows of the elementwise table.
    const ElementwiseTraits* row = nullptr;
    void (*params)(const Attributes& attributes, double* params) = nullptr;
    /// Preferred physical format of the first output; null: plain.
    Format (*format)(const Call& call) = nullptr;
};

/// Checks, infers, and records a node; returns its first result. The rest are result(tensor, i).
Tensor record(const Operation& operation, Attributes attributes, std::span<const Tensor> inputs, const Where& where);
inline Tensor record(const Operation& operation, Attributes attributes, std::initializer_list<Tensor> inputs,
                     const Where& where) {
    return record(operation, std::move(attributes), std::span(inputs.begin(), inputs.size()), where);
}
/// Another result of the node behind `first`.
Tensor result(const Tensor& first, std::uint32_t output);

/// Allocates scratch memory for an implementation.
Ref<Storage> scratch(const Call& call, std::int64_t bytes);

}  // namespace calor::graph
