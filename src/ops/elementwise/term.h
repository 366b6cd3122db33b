// Terms: tensors inside the gradient rules of the elementwise table. A term knows the place of the forward call, so
// rules read as formulas and their nodes still name the caller's line.
#pragma once

#include "calor/activations.h"
#include "calor/elementwise.h"

namespace calor::ops {

/// Up to four parameters of a row, such as the slope of leaky_relu.
struct Params {
    double value[4] = {};
    friend bool operator==(const Params&, const Params&) = default;
};

struct Term {
    Tensor tensor;
    const Where* place = nullptr;
};

/// What a rule sees: cotangent g, operands a, b, c (undefined where there is none), result y, parameters p.
struct Terms {
    Term g, a, b, c, y;
    Params p;
};
using Partial = Term (*)(const Terms& t);

inline Operand operand(const Term& t, const Where& where) { return {t.tensor, where}; }
inline Operand operand(double number, const Where& where) { return {number, where}; }
inline const Where* place_of(const Term& t) { return t.place; }
inline const Where* place_of(double) { return nullptr; }
template <class T>
concept TermOrNumber = std::same_as<T, Term> || std::floating_point<T> || std::integral<T>;
template <class A, class B>
concept TermPair = TermOrNumber<A> && TermOrNumber<B> &&(std::same_as<A, Term> || std::same_as<B, Term>);

using BinaryFunction = Tensor (*)(const Operand&, const Operand&, const Where&);
using UnaryFunction = Tensor (*)(const Tensor&, const Where&);

inline Term call(UnaryFunction f, const Term& x) { return {f(x.tensor, *x.place), x.place}; }
template <class A, class B>
requires TermPair<A, B> Term call(BinaryFunction f, const A& a, const B& b) {
    const Where* at = place_of(a) ? place_of(a) : place_of(b);
    return {f(operand(a, *at), operand(b, *at), *at), at};
}

template <class A, class B>
requires TermPair<A, B> Term operator+(const A& a, const B& b) { return call(calor::add, a, b); }
template <class A, class B>
requires TermPair<A, B> Term operator-(const A& a, const B& b) { return call(calor::sub, a, b); }
template <class A, class B>
requires TermPair<A, B> Term operator*(const A& a, const B& b) { return call(calor::mul, a, b); }
template <class A, class B>
requires TermPair<A, B> Term operator/(const A& a, const B& b) { return call(calor::div, a, b); }
inline Term operator-(const Term& x) { return call(calor::neg, x); }

/// condition ? a : b.
template <class A, class B>
requires TermOrNumber<A> && TermOrNumber<B> Term choose(const Term& condition, const A& a, const B& b) {
    const Where& at = *condition.place;
    return {calor::where(condition.tensor, operand(a, at), operand(b, at), at), condition.place};
}

/// The rule of operations that are constant between jumps.
Term zero_partial(const Terms& t);

}  // namespace calor::ops
