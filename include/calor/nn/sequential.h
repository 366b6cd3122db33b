// Sequential: modules one after the other, chosen when the program runs.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "calor/nn/fields.h"

namespace calor::nn {

/// nn::Sequential net{nn::Conv{{...}}, nn::Relu{}, nn::Flatten{}, nn::Linear{{...}}}. A part is anything that takes a
/// tensor and gives a tensor: a layer, a struct with CALOR_FIELDS, a function, a lambda. Parameters are called
/// "0.weight", "3.bias". Parts are copied with the Sequential, so they must be copyable.
class Sequential {
public:
    Sequential() = default;
    template <class... Parts>
    requires(sizeof...(Parts) > 0 &&
             (std::is_invocable_r_v<Tensor, const std::decay_t<Parts>&, const Tensor&> && ...) &&
             !(sizeof...(Parts) == 1 &&
               (std::is_same_v<std::decay_t<Parts>, Sequential> && ...))) explicit Sequential(Parts&&... parts) {
        (add(std::forward<Parts>(parts)), ...);
    }
    Sequential(const Sequential& other) { *this = other; }
    Sequential(Sequential&&) noexcept = default;
    /// Parts of the same types are assigned one by one, so that optimizers keep their hold on the parameters.
    Sequential& operator=(const Sequential& other);
    Sequential& operator=(Sequential&&) noexcept = default;
    ~Sequential() = default;

    template <class Part> Sequential& add(Part&& part) {
        parts_.push_back(std::make_unique<Holder<std::decay_t<Part>>>(std::forward<Part>(part)));
        return *this;
    }
    std::size_t size() const { return parts_.size(); }
    /// The input through all parts; the input itself if there are none.
    Tensor operator()(const Tensor& x, const Where& where = Where::current()) const;

    void calor_fields(FieldVisitor& visitor);
    void calor_fields(FieldVisitor& visitor) const;

private:
    struct Base {
        virtual ~Base() = default;
        virtual Tensor call(const Tensor& x, const Where& where) const = 0;
        virtual std::unique_ptr<Base> clone() const = 0;
        virtual bool assign(const Base& other) = 0;
        virtual void visit(FieldVisitor& visitor, const std::string& name) = 0;
        virtual void visit(FieldVisitor& visitor, const std::string& name) const = 0;
    };
    template <class Part> struct Holder final : Base {
        template <class From> explicit Holder(From&& from) : part(std::forward<From>(from)) {}
        Tensor call(const Tensor& x, const Where& where) const override {
            if constexpr (std::is_invocable_v<const Part&, const Tensor&, const Where&>) {
                return part(x, where);
            } else {
                return part(x);
            }
        }
        std::unique_ptr<Base> clone() const override { return std::make_unique<Holder>(part); }
        bool assign(const Base& other) override {
            if constexpr (std::is_copy_assignable_v<Part>) {
                if (const auto* same = dynamic_cast<const Holder*>(&other)) {
                    part = same->part;
                    return true;
                }
            }
            return false;
        }
        void visit(FieldVisitor& visitor, const std::string& name) override {
            if constexpr (has_fields) visitor.field(name, part);
        }
        void visit(FieldVisitor& visitor, const std::string& name) const override {
            if constexpr (has_fields) visitor.field(name, part);
        }
        static constexpr bool has_fields = requires(Part & p, FieldVisitor& v) { p.calor_fields(v); };
        Part part;
    };

    std::vector<std::unique_ptr<Base>> parts_;
};

}  // namespace calor::nn
