// Tensor: a handle on a node of a lazy graph. Operations check their arguments at once, infer shape and dtype, and
// record; work happens when a value is read, printed, or asked for with eval().
#pragma once

#include <concepts>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "calor/device.h"
#include "calor/dtype.h"
#include "calor/error.h"
#include "calor/shape.h"

namespace calor {

namespace graph {
class Node;
void retain(Node* node) noexcept;
void release(Node* node) noexcept;
}  // namespace graph

/// A C++ number as an operand. It never widens a tensor: it takes the tensor's dtype (beside f16 and bf16 it keeps the
/// precision of f32, in which those compute); only a floating number with an integer tensor gives f32.
class Scalar {
public:
    enum class Kind : std::uint8_t { boolean, integer, floating };
    template <class T>
    requires std::integral<T> || std::floating_point<T> Scalar(T value) {  // NOLINT: numbers are operands
        if constexpr (std::same_as<T, bool>) {
            kind_ = Kind::boolean;
            integer_ = value;
        } else if constexpr (std::integral<T>) {
            kind_ = Kind::integer;
            integer_ = static_cast<std::int64_t>(value);
            huge_ = std::unsigned_integral<T> && integer_ < 0;
        } else {
            kind_ = Kind::floating;
            floating_ = static_cast<double>(value);
        }
    }
    Scalar(float16 value) : Scalar(static_cast<float>(value)) {}   // NOLINT
    Scalar(bfloat16 value) : Scalar(static_cast<float>(value)) {}  // NOLINT

    Kind kind() const { return kind_; }
    /// The value as a double; integers above 2^53 are rounded.
    double floating() const {
        if (kind_ == Kind::floating) return floating_;
        return huge_ ? static_cast<double>(static_cast<std::uint64_t>(integer_)) : static_cast<double>(integer_);
    }
    /// The value as an integer: the two's complement bits of an unsigned one above 2^63; meaningless for floating
    /// kinds.
    std::int64_t integer() const { return integer_; }
    /// An unsigned integer above 2^63 - 1.
    bool huge() const { return huge_; }

private:
    Kind kind_ = Kind::floating;
    bool huge_ = false;
    std::int64_t integer_ = 0;
    double floating_ = 0;
};

/// An n-dimensional array of one dtype on one device. Copying shares the node; values never change.
class Tensor {
public:
    /// An undefined tensor: usable only as a place to assign to.
    Tensor() = default;
    Tensor(const Tensor& other) noexcept : node_(other.node_), output_(other.output_) { graph::retain(node_); }
    Tensor(Tensor&& other) noexcept : node_(other.node_), output_(other.output_) { other.node_ = nullptr; }
    Tensor& operator=(const Tensor& other) noexcept {
        graph::retain(other.node_);
        graph::release(node_);
        node_ = other.node_;
        output_ = other.output_;
        return *this;
    }
    Tensor& operator=(Tensor&& other) noexcept {
        std::swap(node_, other.node_);
        std::swap(output_, other.output_);
        return *this;
    }
    ~Tensor() { graph::release(node_); }

    bool defined() const { return node_ != nullptr; }
    /// Shape, dtype and device are known without evaluation. Each throws ValueError [tensor/undefined].
    const Shape& shape(const Where& where = Where::current()) const;
    DType dtype(const Where& where = Where::current()) const;
    Device device(const Where& where = Where::current()) const;
    std::int64_t rank(const Where& where = Where::current()) const { return shape_for("rank", where).rank(); }
    std::int64_t numel(const Where& where = Where::current()) const {
        return calor::numel(shape_for("numel", where), where);
    }
    /// Size of one axis; negative axes count from the end. Throws ValueError [axis/range].
    std::int64_t size(std::int64_t axis, const Where& where = Where::current()) const;

    /// Whether gradients flow to or through this tensor.
    bool tracked() const;
    /// A leaf with this value that collects gradients (or, with false, the value without its history).
    /// Throws DTypeError [autodiff/not-floating].
    Tensor requires_grad(bool on = true, const Where& where = Where::current()) const;
    /// The value without its history.
    Tensor detach(const Where& where = Where::current()) const { return requires_grad(false, where); }

    /// The values converted to another dtype: floats round to nearest even, float to integer truncates and saturates
    /// (NaN: 0), integers wrap. Never elided.
    Tensor to(DType dtype, const Where& where = Where::current()) const;
    /// The tensor on another device; the gradient is copied back. Throws DeviceError [device/unavailable].
    Tensor to(Device device, const Where& where = Where::current()) const;

    /// Computes the value now. Returns *this.
    const Tensor& eval(const Where& where = Where::current()) const;
    /// Whether the value is computed.
    bool evaluated() const;

    /// The only element. Throws ShapeError [tensor/not-scalar], DTypeError [tensor/element-type].
    template <class T> T item(const Where& where = Where::current()) const {
        T value;
        read_item(&value, dtype_of<T>, where);
        return value;
    }
    /// All elements in row-major order. Throws DTypeError [tensor/element-type], MemoryError [memory/exhausted].
    /// (std::vector<bool> is not offered: read u8.)
    template <class T> std::vector<T> to_vector(const Where& where = Where::current()) const {
        std::vector<T> values;
        const std::int64_t count = readable(dtype_of<T>, "to_vector", where);
        try {
            values.resize(static_cast<std::size_t>(count));
        } catch (const std::bad_alloc&) {
            fail_too_large("to_vector", where);
        }
        copy_to(values.data(), dtype_of<T>, std::ssize(values), "to_vector", where);
        return values;
    }
    /// Copies all elements in row-major order into `out`, which has exactly numel() entries.
    template <class T> void copy_to(std::span<T> out, const Where& where = Where::current()) const {
        copy_to(out.data(), dtype_of<T>, std::ssize(out), "copy_to", where);
    }
    /// The evaluated elements in host memory, contiguous; valid while this tensor (or a copy of it) lives. A GPU's
    /// values are copied once.
    template <class T> std::span<const T> data(const Where& where = Where::current()) const {
        const void* first = host_data(dtype_of<T>, where);
        return {static_cast<const T*>(first), static_cast<std::size_t>(numel(where))};
    }

    /// For the library's own layers: the node behind the handle.
    explicit Tensor(graph::Node* adopted, std::uint32_t output) noexcept : node_(adopted), output_(output) {}
    graph::Node* node() const { return node_; }
    std::uint32_t output() const { return output_; }
    /// Same node and output: the same value by identity, not by comparison.
    bool same_as(const Tensor& other) const { return node_ == other.node_ && output_ == other.output_; }

private:
    const Shape& shape_for(const char* function, const Where& where) const;
    void read_item(void* out, DType as, const Where& where) const;
    void copy_to(void* out, DType as, std::int64_t count, const char* function, const Where& where) const;
    /// The number of elements, when their dtype is this one and the machine's memory can hold them.
    std::int64_t readable(DType as, const char* function, const Where& where) const;
    [[noreturn]] void fail_too_large(const char* function, const Where& where) const;
    const void* host_data(DType as, const Where& where) const;

    graph::Node* node_ = nullptr;
    std::uint32_t output_ = 0;
};

/// A tensor or a number, with the place of the call.
class Operand {
public:
    Operand(const Tensor& tensor, const Where& where = Where::current())  // NOLINT: tensors are operands
        : tensor_(&tensor), where_(where) {}
    /// Anything that holds a tensor and converts to it, such as a parameter.
    template <class T>
    requires requires(const T& holder) { holder.operator const Tensor&(); }
    Operand(const T& holder, const Where& where = Where::current())  // NOLINT
        : tensor_(&holder.operator const Tensor&()), where_(where) {}
    template <class T>
    requires std::integral<T> || std::floating_point<T> || std::same_as<T, float16> || std::same_as<T, bfloat16>
    Operand(T value, const Where& where = Where::current()) : scalar_(value), where_(where) {}  // NOLINT

    bool is_tensor() const { return tensor_ != nullptr; }
    const Tensor& tensor() const { return *tensor_; }
    const Scalar& scalar() const { return scalar_; }
    const Where& where() const { return where_; }

private:
    const Tensor* tensor_ = nullptr;
    Scalar scalar_ = 0.0;
    Where where_;
};

/// Computes the values of all given tensors together.
void eval(std::span<const Tensor> tensors, const Where& where = Where::current());
void eval(std::initializer_list<Tensor> tensors, const Where& where = Where::current());

/// Makes a tensor on the default device (or a given one) from host values in row-major order; they are copied. Throws
/// ShapeError [tensor/count].
Tensor from_host(const void* values, std::int64_t count, DType dtype, const Shape& shape,
                 const Where& where = Where::current());
Tensor from_host(const void* values, std::int64_t count, DType dtype, const Shape& shape, Device device,
                 const Where& where = Where::current());

/// A tensor of the given values and shape; the dtype follows T.
template <class T> Tensor tensor(std::span<const T> values, const Shape& shape, const Where& where = Where::current()) {
    return from_host(values.data(), std::ssize(values), dtype_of<T>, shape, where);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, const Where& where = Where::current()) {
    return from_host(values.data(), std::ssize(values), dtype_of<T>, shape, where);
}
template <class T> Tensor tensor(const std::vector<T>& values, const Where& where = Where::current()) {
    return from_host(values.data(), std::ssize(values), dtype_of<T>, Shape{std::ssize(values)}, where);
}
/// From initializer lists up to four deep: tensor({{1.f, 2.f}, {3.f, 4.f}}). Throws ShapeError [tensor/ragged].
template <class T> Tensor tensor(std::initializer_list<T> values, const Where& where = Where::current()) {
    return from_host(values.begin(), static_cast<std::int64_t>(values.size()), dtype_of<T>,
                     Shape{static_cast<std::int64_t>(values.size())}, where);
}
namespace detail {
[[noreturn]] void fail_ragged(std::int64_t expected, std::int64_t got, const Where& where);
/// Appends nested lists row by row and checks that they are rectangular.
template <class T> void flatten_list(T value, std::vector<T>& out, Shape&, std::int64_t, const Where&) {
    out.push_back(value);
}
template <class T, class L>
void flatten_list(std::initializer_list<L> list, std::vector<T>& out, Shape& shape, std::int64_t depth,
                  const Where& where) {
    const auto count = static_cast<std::int64_t>(list.size());
    if (shape.rank() == depth) shape.push_back(count);
    if (shape[depth] != count) fail_ragged(shape[depth], count, where);
    for (const L& item : list) flatten_list<T>(item, out, shape, depth + 1, where);
}
}  // namespace detail
template <class T = float>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const Where& where = Where::current()) {
    std::vector<T> values;
    Shape shape;
    detail::flatten_list<T>(rows, values, shape, 0, where);
    return from_host(values.data(), std::ssize(values), dtype_of<T>, shape, where);
}
template <class T = float>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              const Where& where = Where::current()) {
    std::vector<T> values;
    Shape shape;
    detail::flatten_list<T>(planes, values, shape, 0, where);
    return from_host(values.data(), std::ssize(values), dtype_of<T>, shape, where);
}
template <class T = float>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>> blocks,
              const Where& where = Where::current()) {
    std::vector<T> values;
    Shape shape;
    detail::flatten_list<T>(blocks, values, shape, 0, where);
    return from_host(values.data(), std::ssize(values), dtype_of<T>, shape, where);
}
/// A tensor of rank 0.
Tensor scalar(Scalar value, DType dtype, const Where& where = Where::current());

/// "f32[2, 3]": as error messages show a tensor.
std::string describe(const Tensor& tensor);

/// While one lives, operations of this thread record no history.
class NoGrad {
public:
    NoGrad() : NoGrad(false) {}
    NoGrad(const NoGrad&) = delete;
    NoGrad& operator=(const NoGrad&) = delete;
    ~NoGrad();

protected:
    explicit NoGrad(bool record);

private:
    bool before_;
};
/// The opposite inside a NoGrad.
class WithGrad : public NoGrad {
public:
    WithGrad() : NoGrad(true) {}
};
/// Calls `body` without recording history.
template <class F> auto no_grad(F&& body) {
    const NoGrad guard;
    return body();
}
bool grad_enabled();

/// While one lives, fused half-precision chains of this thread round after every operation: the bits of the unfused
/// code.
class StrictRounding {
public:
    explicit StrictRounding(bool on = true);
    StrictRounding(const StrictRounding&) = delete;
    StrictRounding& operator=(const StrictRounding&) = delete;
    ~StrictRounding();

private:
    bool before_;
};

}  // namespace calor
