// Single elements of a floating view as T, for the references.
#pragma once

#include "device/view.h"

namespace calor::ops::grid {

template <class T> inline T read(const View& v, std::int64_t offset) {
    switch (v.dtype) {
        case f64: return static_cast<T>(v.as<const double>()[offset]);
        case f32: return static_cast<T>(v.as<const float>()[offset]);
        case f16: return static_cast<T>(static_cast<float>(v.as<const float16>()[offset]));
        default: return static_cast<T>(static_cast<float>(v.as<const bfloat16>()[offset]));
    }
}
template <class T> inline void write(const View& v, std::int64_t offset, T value) {
    switch (v.dtype) {
        case f64: v.as<double>()[offset] = static_cast<double>(value); return;
        case f32: v.as<float>()[offset] = static_cast<float>(value); return;
        case f16: v.as<float16>()[offset] = float16(static_cast<float>(value)); return;
        default: v.as<bfloat16>()[offset] = bfloat16(static_cast<float>(value)); return;
    }
}

}  // namespace calor::ops::grid
