// CALOR_FIELDS(a, b, ...) names the members of a module that hold parameters, once. Inside the class (in its public
// part):
//     struct Block { nn::Linear up, down;  CALOR_FIELDS(up, down) };
// A field is a Parameter, a Buffer, a Mode, a module, or an std::vector, std::array, std::optional, std::unique_ptr or
// std::shared_ptr of such. The class stays an aggregate. Up to 256 fields.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "calor/nn/parameter.h"

namespace calor::nn {

/// Whether a module is being trained; nn::train(net) and nn::eval(net) set it. Dropout and BatchNorm behave
/// accordingly.
class Mode {
public:
    bool training() const { return training_; }
    void set_training(bool on) { training_ = on; }

private:
    bool training_ = true;
};

/// Walks over the fields of a module and those nested in it, with their dotted path.
class FieldVisitor {
public:
    FieldVisitor() = default;
    FieldVisitor(const FieldVisitor&) = delete;
    FieldVisitor& operator=(const FieldVisitor&) = delete;
    virtual ~FieldVisitor() = default;

    virtual void parameter(const Parameter&) {}
    virtual void buffer(const Buffer&) {}
    virtual void mode(Mode&) {}
    /// "blocks.0.weight" while that parameter is visited.
    const std::string& path() const { return path_; }

    /// Visits what `value` holds, under `name`. CALOR_FIELDS calls it for every field.
    template <class T> void field(std::string_view name, T& value) {
        const std::size_t outer = path_.size();
        if (outer != 0) path_ += '.';
        path_ += name;
        visit(value);
        path_.resize(outer);
    }

    /// Visits what `value` holds, under the current path.
    template <class T> void visit(T& value) {
        using Plain = std::remove_const_t<T>;
        if constexpr (std::derived_from<Plain, Parameter>) {
            parameter(value);
        } else if constexpr (std::derived_from<Plain, Buffer>) {
            buffer(value);
        } else if constexpr (std::same_as<Plain, Mode>) {
            if constexpr (!std::is_const_v<T>) mode(value);
        } else if constexpr (requires { value.calor_fields(*this); }) {
            value.calor_fields(*this);
        } else if constexpr (requires { value.begin() != value.end(); }) {
            std::size_t index = 0;
            for (auto& item : value) field(std::to_string(index++), item);
        } else if constexpr (requires { static_cast<bool>(value), *value; }) {
            if (value) visit(*value);
        } else {
            static_assert(sizeof(T) == 0, "this field is no parameter, buffer or module: leave it out of CALOR_FIELDS");
        }
    }

private:
    std::string path_;
};

}  // namespace calor::nn

#define CALOR_FIELDS(...)                                                                \
    void calor_fields([[maybe_unused]] ::calor::nn::FieldVisitor& calor_visitor) {       \
        CALOR_FOR_EACH(CALOR_VISIT_FIELD, __VA_ARGS__)                                   \
    }                                                                                    \
    void calor_fields([[maybe_unused]] ::calor::nn::FieldVisitor& calor_visitor) const { \
        CALOR_FOR_EACH(CALOR_VISIT_FIELD, __VA_ARGS__)                                   \
    }
#define CALOR_VISIT_FIELD(name) calor_visitor.field(#name, name);

// CALOR_FOR_EACH(macro, a, b, ...) -> macro(a) macro(b) ...: a step leaves a call of itself that the next rescan
// expands.
#define CALOR_FOR_EACH(macro, ...) __VA_OPT__(CALOR_RESCAN(CALOR_FOR_EACH_STEP(macro, __VA_ARGS__)))
#define CALOR_FOR_EACH_STEP(macro, first, ...) \
    macro(first) __VA_OPT__(CALOR_FOR_EACH_NEXT CALOR_NO_ARGUMENTS(macro, __VA_ARGS__))
#define CALOR_FOR_EACH_NEXT() CALOR_FOR_EACH_STEP
#define CALOR_NO_ARGUMENTS ()
#define CALOR_RESCAN(...) CALOR_RESCAN_64(CALOR_RESCAN_64(CALOR_RESCAN_64(CALOR_RESCAN_64(__VA_ARGS__))))
#define CALOR_RESCAN_64(...) CALOR_RESCAN_16(CALOR_RESCAN_16(CALOR_RESCAN_16(CALOR_RESCAN_16(__VA_ARGS__))))
#define CALOR_RESCAN_16(...) CALOR_RESCAN_4(CALOR_RESCAN_4(CALOR_RESCAN_4(CALOR_RESCAN_4(__VA_ARGS__))))
#define CALOR_RESCAN_4(...) CALOR_RESCAN_1(CALOR_RESCAN_1(CALOR_RESCAN_1(CALOR_RESCAN_1(__VA_ARGS__))))
#define CALOR_RESCAN_1(...) __VA_ARGS__
