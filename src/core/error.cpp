// Exceptions and their text. The text has the form
//   calor::ShapeError [conv/channels] at train.cpp:41
//     conv: the input has 6 channels, ...
//     input f32[2, 6, 32, 32], weight f32[8, 4, 3, 3]
//     hint: ...   More: calor explain conv/channels
#include "calor/error.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <limits>

#include "core/fail.h"

namespace calor {
namespace {

std::string_view class_of(ErrorKind kind) {
    constexpr std::string_view names[] = {"ShapeError",  "DTypeError",  "DeviceError", "ValueError",
                                          "MemoryError", "KernelError", "IoError",     "InternalError"};
    return names[static_cast<int>(kind)];
}

std::string file_name(const char* path) {
    const std::string_view whole = path;
    const auto slash = whole.find_last_of('/');
    return std::string(slash == std::string_view::npos ? whole : whole.substr(slash + 1));
}

/// Replaces every {name} that has a field; other braces stay as they are.
std::string fill_in(std::string_view text, std::initializer_list<Field> fields) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const auto close = text[i] == '{' ? text.find('}', i) : std::string_view::npos;
        const Field* found = nullptr;
        if (close != std::string_view::npos) {
            const auto name = text.substr(i + 1, close - i - 1);
            for (const Field& f : fields) {
                if (f.name == name) found = &f;
            }
        }
        if (found) {
            out += found->value;
            i = close + 1;
        } else {
            out += text[i++];
        }
    }
    return out;
}

thread_local std::string_view public_function;

[[noreturn]] void raise(Error::Parts parts) {
    switch (parts.kind) {
        case ErrorKind::shape: throw ShapeError(std::move(parts));
        case ErrorKind::dtype: throw DTypeError(std::move(parts));
        case ErrorKind::device: throw DeviceError(std::move(parts));
        case ErrorKind::value: throw ValueError(std::move(parts));
        case ErrorKind::memory: throw MemoryError(std::move(parts));
        case ErrorKind::kernel: throw KernelError(std::move(parts));
        case ErrorKind::io: throw IoError(std::move(parts));
        case ErrorKind::internal: break;
    }
    throw InternalError(std::move(parts));
}

}  // namespace

Field::Field(std::string_view n, double v) : name(n), value(fmt::format("{}", v)) {}

Error::Error(Parts parts) {
    parts.text = fmt::format("calor::{} [{}] at {}:{}\n  {}: {}", class_of(parts.kind), parts.code,
                             file_name(parts.where.file_name()), parts.where.line(), parts.operation, parts.message);
    if (!parts.operands.empty()) parts.text += "\n  " + parts.operands;
    parts.text += "\n  hint: " + parts.hint + (parts.hint.ends_with('.') ? "" : ".");
    parts.text += "   More: calor explain " + parts.code;
    parts_ = std::make_shared<const Parts>(std::move(parts));
}

void fail(std::string_view code, std::string_view operation, const Where& where, std::initializer_list<Field> fields,
          std::string operands) {
    const ErrorEntry* entry = find_error(code);
    if (!entry) fail_internal(fmt::format("the error code {} is not in the catalogue", code), where);
    Error::Parts parts;
    parts.code = code;
    parts.kind = entry->kind;
    parts.operation = public_function.empty() ? operation : public_function;
    parts.message = fill_in(entry->message, fields);
    parts.operands = std::move(operands);
    parts.hint = fill_in(entry->hint, fields);
    parts.where = where;
    raise(std::move(parts));
}

Naming::Naming(std::string_view function, bool always) : before_(public_function) {
    if (always || before_.empty()) public_function = function;
}
Naming::~Naming() { public_function = before_; }
std::string_view Naming::current() { return public_function; }

void fail_host_memory(std::string_view operation, const Where& where, std::int64_t bytes) {
    fail("memory/exhausted", operation, where,
         {{"device", "the host"},
          {"bytes", bytes > 0 ? std::to_string(bytes) : std::string("the working")},
          {"accounts", ""}});
}

void check_host_memory(std::int64_t bytes, std::string_view operation, const Where& where) {
    static const std::int64_t most = [] {
        struct sysinfo machine {};
        if (::sysinfo(&machine) != 0) return std::numeric_limits<std::int64_t>::max();
        return static_cast<std::int64_t>((machine.totalram + machine.totalswap) * machine.mem_unit);
    }();
    if (bytes > most) fail_host_memory(operation, where, bytes);
}

void fail_internal(std::string_view what, const Where& where) {
    fail("internal/state", "calor", where, {{"what", what}});
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b, const Where& where) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        fail("shape/overflow", "size", where, {{"what", fmt::format("{} * {}", a, b)}});
    }
    return result;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b, const Where& where) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        fail("shape/overflow", "size", where, {{"what", fmt::format("{} + {}", a, b)}});
    }
    return result;
}

}  // namespace calor
