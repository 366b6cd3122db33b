// Ref<T>: an intrusive reference-counted pointer. T has `std::atomic<std::int32_t> references` and is released by
// T::release(T*).
#pragma once

#include <atomic>
#include <utility>

namespace calor {

template <class T> class Ref {
public:
    Ref() = default;
    /// Takes over one reference that the caller owns.
    static Ref adopt(T* pointer) {
        Ref r;
        r.pointer_ = pointer;
        return r;
    }
    explicit Ref(T* pointer) : pointer_(pointer) { retain(); }
    Ref(const Ref& other) : pointer_(other.pointer_) { retain(); }
    Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(pointer_, other.pointer_);
        return *this;
    }
    ~Ref() { reset(); }

    void reset() {
        T* gone = std::exchange(pointer_, nullptr);
        if (gone && gone->references.fetch_sub(1, std::memory_order_acq_rel) == 1) T::release(gone);
    }
    T* get() const { return pointer_; }
    T& operator*() const { return *pointer_; }
    T* operator->() const { return pointer_; }
    explicit operator bool() const { return pointer_ != nullptr; }
    friend bool operator==(const Ref& a, const Ref& b) { return a.pointer_ == b.pointer_; }

private:
    void retain() {
        if (pointer_) pointer_->references.fetch_add(1, std::memory_order_relaxed);
    }
    T* pointer_ = nullptr;
};

}  // namespace calor
