// Errors: every failure is an exception with a code, a cause and a remedy. The codes are catalogued in
// src/core/errors.json; `calor explain CODE` prints an entry.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace calor {

/// Where the user called: public functions take it as a defaulted last argument.
#ifdef __cpp_lib_source_location
using Where = std::source_location;
#else
/// std::source_location for compilers whose standard library has none (clang before 16 with libstdc++).
class Where {
public:
    static constexpr Where current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                   std::uint_least32_t line = __builtin_LINE(),
                                   std::uint_least32_t column = __builtin_COLUMN()) noexcept {
        Where where;
        where.file_ = file;
        where.function_ = function;
        where.line_ = line;
        where.column_ = column;
        return where;
    }
    constexpr const char* file_name() const noexcept { return file_; }
    constexpr const char* function_name() const noexcept { return function_; }
    constexpr std::uint_least32_t line() const noexcept { return line_; }
    constexpr std::uint_least32_t column() const noexcept { return column_; }

private:
    const char* file_ = "";
    const char* function_ = "";
    std::uint_least32_t line_ = 0, column_ = 0;
};
#endif

enum class ErrorKind : std::uint8_t { shape, dtype, device, value, memory, kernel, io, internal };

/// Base of every exception that calor throws. what() is the whole text, several lines, without a trailing newline.
class Error : public std::exception {
public:
    struct Parts {
        std::string code;       ///< catalogue code, for example "conv/channels"
        ErrorKind kind{};       ///< the class of the exception says the same
        std::string operation;  ///< the public function that refused
        std::string message;    ///< what is wrong: what came and what was expected
        std::string operands;   ///< the tensors involved, "input f32[2, 6], weight f32[8, 4]"; may be empty
        std::string hint;       ///< a remedy
        Where where;            ///< the caller's file and line
        std::string text;       ///< everything, as what() gives it
    };
    explicit Error(Parts parts);

    const char* what() const noexcept override { return parts_->text.c_str(); }
    const std::string& code() const noexcept { return parts_->code; }
    ErrorKind kind() const noexcept { return parts_->kind; }
    const std::string& operation() const noexcept { return parts_->operation; }
    const std::string& message() const noexcept { return parts_->message; }
    const std::string& hint() const noexcept { return parts_->hint; }
    const Where& where() const noexcept { return parts_->where; }

private:
    std::shared_ptr<const Parts> parts_;  // shared, so that copying an exception cannot throw
};

template <ErrorKind> class ErrorOf : public Error {
public:
    using Error::Error;
};
using ShapeError = ErrorOf<ErrorKind::shape>;
using DTypeError = ErrorOf<ErrorKind::dtype>;
using DeviceError = ErrorOf<ErrorKind::device>;
using ValueError = ErrorOf<ErrorKind::value>;
using MemoryError = ErrorOf<ErrorKind::memory>;
using KernelError = ErrorOf<ErrorKind::kernel>;
using IoError = ErrorOf<ErrorKind::io>;
using InternalError = ErrorOf<ErrorKind::internal>;

/// One entry of the catalogue.
struct ErrorEntry {
    std::string code;                  ///< "conv/channels"
    ErrorKind kind{};                  ///< which exception class carries it
    std::string message;               ///< template of the message; {names} are filled in
    std::string hint;                  ///< template of the one-line remedy
    std::string meaning;               ///< what it means
    std::string when;                  ///< when it happens
    std::string fix;                   ///< how to fix it
    std::string before;                ///< code that provokes it
    std::string after;                 ///< the same code, right
    std::vector<std::string> related;  ///< codes to read next
};

/// The whole catalogue, sorted by code.
const std::vector<ErrorEntry>& error_catalogue();
/// The entry of a code, or null.
const ErrorEntry* find_error(std::string_view code);
/// "shape", "dtype", ...: as the catalogue spells a kind.
std::string_view name_of(ErrorKind kind);

}  // namespace calor
