// Shape: the sizes of a tensor's axes, of any rank; up to 8 are stored inline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include "calor/error.h"

namespace calor {

/// A short list of 64-bit integers: sizes, strides, axes. Inline up to 8 entries.
class Dims {
public:
    static constexpr std::int64_t inline_capacity = 8;

    Dims() = default;
    Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
    explicit Dims(std::span<const std::int64_t> values) { assign(values.data(), std::ssize(values)); }
    Dims(std::int64_t count, std::int64_t value) {
        resize(count);
        std::fill(begin(), end(), value);
    }
    Dims(const Dims& other) { assign(other.data(), other.count_); }
    Dims(Dims&& other) noexcept { take(other); }
    Dims& operator=(const Dims& other) {
        if (this != &other) assign(other.data(), other.count_);
        return *this;
    }
    Dims& operator=(Dims&& other) noexcept {
        if (this != &other) take(other);
        return *this;
    }
    ~Dims() = default;

    std::int64_t rank() const { return count_; }
    std::size_t size() const { return static_cast<std::size_t>(count_); }
    bool empty() const { return count_ == 0; }
    std::int64_t* data() { return heap_ ? heap_.get() : inline_; }
    const std::int64_t* data() const { return heap_ ? heap_.get() : inline_; }
    /// Unchecked entry; `i` is in [0, rank).
    std::int64_t& operator[](std::int64_t i) { return data()[i]; }
    std::int64_t operator[](std::int64_t i) const { return data()[i]; }
    std::int64_t* begin() { return data(); }
    std::int64_t* end() { return data() + count_; }
    const std::int64_t* begin() const { return data(); }
    const std::int64_t* end() const { return data() + count_; }
    std::int64_t back() const { return data()[count_ - 1]; }

    void push_back(std::int64_t value) {
        resize(count_ + 1);
        data()[count_ - 1] = value;
    }
    void insert(std::int64_t at, std::int64_t value) {
        push_back(value);
        std::rotate(begin() + at, end() - 1, end());
    }
    void erase(std::int64_t at) {
        std::copy(begin() + at + 1, end(), begin() + at);
        --count_;
    }
    /// Keeps the first entries; new ones are 0.
    void resize(std::int64_t count) {
        if (count > capacity_) grow(count);
        if (count > count_) std::fill(data() + count_, data() + count, 0);
        count_ = count;
    }
    operator std::span<const std::int64_t>() const { return {data(), size()}; }  // NOLINT: a view

    friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

private:
    void grow(std::int64_t count);  // to the heap
    void assign(const std::int64_t* from, std::int64_t count) {
        count_ = 0;
        resize(count);
        std::int64_t* to = data();
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    }
    void take(Dims& other) noexcept {
        count_ = other.count_;
        capacity_ = other.capacity_;
        std::copy(other.inline_, other.inline_ + inline_capacity, inline_);
        heap_ = std::move(other.heap_);
        other.count_ = 0;
        other.capacity_ = inline_capacity;
    }

    std::int64_t count_ = 0;
    std::int64_t capacity_ = inline_capacity;
    std::int64_t inline_[inline_capacity] = {};
    std::unique_ptr<std::int64_t[]> heap_;
};

/// Sizes of the axes, outermost first: N, C, spatial for images. Rank 0 is a scalar with one element.
using Shape = Dims;
/// Distances between neighbours along each axis, in elements; zero and negative ones are legal.
using Strides = Dims;
/// A list of axes; negative ones count from the end.
using Axes = Dims;

/// Number of elements. Throws ValueError [shape/overflow] when it does not fit in 63 bits, [shape/negative] for a
/// negative size.
std::int64_t numel(const Shape& shape, const Where& where = Where::current());
/// Strides of a row-major dense tensor.
Strides contiguous_strides(const Shape& shape);
/// "[2, 3, 4]".
std::string to_string(const Dims& dims);

/// One integer per spatial axis, or one for all of them: `.stride = 2` is as good as `.stride = {2, 2}`.
class PerAxis {
public:
    PerAxis() = default;
    PerAxis(std::int64_t every) : values_{every}, scalar_(true) {}     // NOLINT: a number is a list of equal numbers
    PerAxis(int every) : PerAxis(static_cast<std::int64_t>(every)) {}  // NOLINT
    PerAxis(std::initializer_list<std::int64_t> values) : values_(values) {}
    PerAxis(Dims values) : values_(std::move(values)) {}  // NOLINT
    /// False for a default-constructed list: the operation's default applies.
    bool given() const { return scalar_ || !values_.empty(); }
    bool scalar() const { return scalar_; }
    const Dims& values() const { return values_; }
    friend bool operator==(const PerAxis&, const PerAxis&) = default;

private:
    Dims values_;
    bool scalar_ = false;
};

}  // namespace calor
