// fail(): the one way in which calor throws. The catalogue entry of the code gives the message template and the hint;
// the call gives the values for its {names}.
#pragma once

#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "calor/dtype.h"
#include "calor/error.h"
#include "calor/shape.h"

namespace calor {

/// A value for a {name} in a message template.
struct Field {
    Field(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
    Field(std::string_view n, std::string_view v) : name(n), value(v) {}
    Field(std::string_view n, const char* v) : name(n), value(v) {}
    Field(std::string_view n, std::int64_t v) : name(n), value(std::to_string(v)) {}
    Field(std::string_view n, std::uint64_t v) : name(n), value(std::to_string(v)) {}
    Field(std::string_view n, int v) : name(n), value(std::to_string(v)) {}
    Field(std::string_view n, double v);
    Field(std::string_view n, DType v) : name(n), value(name_of(v)) {}
    Field(std::string_view n, const Dims& v) : name(n), value(to_string(v)) {}

    std::string_view name;
    std::string value;
};

/// Throws the exception class of the code's kind. `operands` is a ready text such as "input f32[2, 6], weight f32[8,
/// 4]".
[[noreturn]] void fail(std::string_view code, std::string_view operation, const Where& where,
                       std::initializer_list<Field> fields = {}, std::string operands = {});

/// While one lives, errors of this thread name this public function, whatever it is made of. The outermost one counts.
/// The text must live for ever.
class Naming {
public:
    explicit Naming(std::string_view function) : Naming(function, false) {}
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    ~Naming();
    /// The same, but for the outermost one: what runs now was recorded by another function.
    static Naming instead(std::string_view function) { return {function, true}; }
    /// The function to name; empty without one.
    static std::string_view current();

private:
    Naming(std::string_view function, bool always);
    std::string_view before_;
};

/// a * b and a + b for sizes >= 0; throws ValueError [shape/overflow] at `where` when the result leaves 63 bits.
std::int64_t checked_multiply(std::int64_t a, std::int64_t b, const Where& where);
std::int64_t checked_add(std::int64_t a, std::int64_t b, const Where& where);
/// Bytes of a tensor of this shape and dtype, checked.
std::int64_t checked_bytes(const Shape& shape, DType dtype, const Where& where);

/// MemoryError [memory/exhausted]: the host has no room for what a function works with or returns.
[[noreturn]] void fail_host_memory(std::string_view operation, const Where& where, std::int64_t bytes = 0);

/// Refuses what the machine's memory cannot hold. The system may grant it and end the program when it is written to.
void check_host_memory(std::int64_t bytes, std::string_view operation, const Where& where);

/// `count` values of a host array, or MemoryError [memory/exhausted].
template <class T> std::vector<T> host_array(std::int64_t count, std::string_view operation, const Where& where) {
    const std::int64_t bytes = checked_multiply(count, sizeof(T), where);
    check_host_memory(bytes, operation, where);
    try {
        return std::vector<T>(static_cast<std::size_t>(count));
    } catch (const std::bad_alloc&) {
        fail_host_memory(operation, where, bytes);
    }
}

/// An impossible state inside calor: InternalError [internal/state].
[[noreturn]] void fail_internal(std::string_view what, const Where& where = Where::current());

}  // namespace calor
