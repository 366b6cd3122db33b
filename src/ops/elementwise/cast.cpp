// cast: conversion between dtypes, and numbers as tensors of rank 0.
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "graph/node.h"
#include "ops/registry.h"

namespace calor {
namespace {

struct CastAttributes {
    DType to;
    friend bool operator==(const CastAttributes&, const CastAttributes&) = default;
};

graph::Specs infer_cast(const graph::InferContext& c) { return {{c.inputs[0].shape(), c.attrs<CastAttributes>().to}}; }

void cast_gradient(const graph::GradContext& c) { c.grads[0] = c.cotangent().to(c.inputs[0].dtype(), c.where); }

const ElementwiseTraits cast_traits{.name = "cast", .text = "a", .reads_rounded = true, .cast = true};
const graph::Operation cast_operation{.name = "cast",
                                      .traits = graph::elementwise | graph::linear,
                                      .infer = infer_cast,
                                      .gradient = cast_gradient,
                                      .row = &cast_traits};

template <class T> void store(void* to, T value) { std::memcpy(to, &value, sizeof value); }

/// Whether a number has a place in an integer dtype; halves and floats take any.
bool fits(const Scalar& s, DType dtype) {
    if (is_floating(dtype)) return true;
    if (dtype == boolean) return s.kind() == Scalar::Kind::boolean;
    if (s.kind() == Scalar::Kind::floating) return false;
    const std::int64_t bits = 8 * size_of(dtype);
    if (s.huge()) return dtype == u64;
    const std::int64_t v = s.integer();
    if (is_unsigned_integer(dtype)) return v >= 0 && (bits == 64 || v < (std::int64_t{1} << bits));
    return bits == 64 || (v >= -(std::int64_t{1} << (bits - 1)) && v < (std::int64_t{1} << (bits - 1)));
}

/// f64 -> f32 such that a further rounding to 16 bits gives what one rounding from f64 would: inexact values get an odd
/// last bit.
float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    if (std::isnan(value) || std::isinf(nearest) || static_cast<double>(nearest) == value) return nearest;
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
    return std::bit_cast<float>(bits | 1U);
}

void store_scalar(void* to, const Scalar& s, DType dtype) {
    switch (dtype) {
        case f64: return store(to, s.floating());
        case f32: return store(to, static_cast<float>(s.floating()));
        case f16: return store(to, float16(round_to_odd(s.floating())));
        case bf16: return store(to, bfloat16(round_to_odd(s.floating())));
        case i64:
        case u64: return store(to, s.integer());
        case i32:
        case u32: return store(to, static_cast<std::int32_t>(s.integer()));
        case i16:
        case u16: return store(to, static_cast<std::int16_t>(s.integer()));
        case i8:
        case u8: return store(to, static_cast<std::int8_t>(s.integer()));
        case boolean: return store(to, static_cast<std::uint8_t>(s.integer() != 0));
    }
}

/// A number in a GPU's memory. A program uses the same few again and again: the last ones are kept, so that an operand
/// need not be copied each time.
Ref<Storage> stored_number(std::uint64_t bits, Device device, const Where& where) {
    struct Kept {
        std::uint64_t bits;
        Device device;
        Ref<Storage> storage;
    };
    constexpr std::size_t most = 256;
    static std::mutex mutex;
    static auto* kept = new std::vector<Kept>;
    static std::size_t next = 0;
    const std::lock_guard lock(mutex);
    for (const Kept& k : *kept) {
        if (k.bits == bits && k.device == device) return k.storage;
    }
    Backend& to = backend(device, where);
    Ref<Storage> storage = to.allocate(sizeof bits, "scalar", where);
    to.stream().copy_to_device(storage->data, &bits, sizeof bits);
    if (kept->size() < most) {
        kept->push_back({bits, device, storage});
    } else {
        (*kept)[next++ % most] = {bits, device, storage};
    }
    return storage;
}

}  // namespace

Tensor Tensor::to(DType dtype, const Where& where) const {
    const Naming naming("to");
    if (!defined()) fail("tensor/undefined", "to", where, {{"argument", "the tensor"}});
    if (graph::value_of(*this).dtype == dtype) return *this;
    return graph::record(cast_operation, CastAttributes{dtype}, {*this}, where);
}

Tensor scalar(Scalar value, DType dtype, const Where& where) {
    const Naming naming("scalar");
    if (!fits(value, dtype)) {
        fail("value/scalar", "scalar", where,
             {{"got", value.kind() == Scalar::Kind::floating ? Field("", value.floating()).value
                      : value.huge() ? std::to_string(static_cast<std::uint64_t>(value.integer()))
                                     : std::to_string(value.integer())},
              {"dtype", dtype}});
    }
    const Device device = default_device();
    if (device.kind != DeviceKind::cpu) {
        std::uint64_t bits = 0;
        store_scalar(&bits, value, dtype);
        return graph::make_value(stored_number(bits, device, where), {}, {}, dtype, device, where);
    }
    auto storage = backend(device).allocate(8, "scalar", where);
    store_scalar(storage->data, value, dtype);
    return graph::make_value(std::move(storage), {}, {}, dtype, device, where);
}

ops::Descriptors ops::cast_descriptors() { return {&cast_operation}; }

}  // namespace calor
