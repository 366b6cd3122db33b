// InlineVector: a short list whose first N entries need no allocation. Entries are default-constructible and movable.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace calor {

template <class T, std::size_t N> class InlineVector {
public:
    InlineVector() = default;
    InlineVector(std::initializer_list<T> values) {
        for (const T& v : values) push_back(v);
    }
    void push_back(T value) {
        if (count_ < N && spilled_.empty()) {
            inline_[count_] = std::move(value);
        } else {
            if (spilled_.empty()) {
                spilled_.reserve(2 * N + 1);
                for (std::size_t i = 0; i < count_; ++i) spilled_.push_back(std::move(inline_[i]));
            }
            spilled_.push_back(std::move(value));
        }
        ++count_;
    }
    void clear() {
        for (std::size_t i = 0; i < count_ && i < N; ++i) inline_[i] = T();
        spilled_.clear();
        count_ = 0;
    }
    std::size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }
    T* data() { return spilled_.empty() ? inline_.data() : spilled_.data(); }
    const T* data() const { return spilled_.empty() ? inline_.data() : spilled_.data(); }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }
    T* begin() { return data(); }
    T* end() { return data() + count_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + count_; }
    operator std::span<const T>() const { return {data(), count_}; }  // NOLINT: a view

private:
    std::size_t count_ = 0;
    std::array<T, N> inline_{};
    std::vector<T> spilled_;
};

}  // namespace calor
