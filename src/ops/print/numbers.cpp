// Floats as NumPy shows them: the shortest digits that give the same number of the dtype back, cut at 8 digits behind
// the point, aligned at the point; or all in scientific form with the same number of digits.
#include "ops/print/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace calor::print {
namespace {

constexpr int precision = 8;

/// to_chars in a form, with all digits that are needed (digits < 0) or so many behind the point.
template <class T> std::string text(T value, std::chars_format form, int digits) {
    char buffer[512];
    const auto end = digits < 0 ? std::to_chars(buffer, buffer + sizeof buffer, value, form).ptr
                                : std::to_chars(buffer, buffer + sizeof buffer, value, form, digits).ptr;
    return {buffer, end};
}

template <class H> std::string shortest_half(float value) {
    for (int digits = 0; digits < 8; ++digits) {
        std::string s = text(value, std::chars_format::scientific, digits);
        float back = 0;
        std::from_chars(s.data(), s.data() + s.size(), back);
        if (H(back).bits == H(value).bits) return s;
    }
    return text(value, std::chars_format::scientific, -1);
}

/// The fewest digits that tell the number from its neighbours, as d.ddde+xx.
std::string shortest(double value, DType dtype) {
    switch (dtype) {
        case f64: return text(value, std::chars_format::scientific, -1);
        case f16: return shortest_half<float16>(static_cast<float>(value));
        case bf16: return shortest_half<bfloat16>(static_cast<float>(value));
        default: return text(static_cast<float>(value), std::chars_format::scientific, -1);
    }
}

struct Decimal {
    std::string digits;  ///< without point and sign
    int exponent = 0;    ///< of the first digit
    bool negative = false;
};

Decimal parse(std::string_view s) {
    Decimal d;
    if (s.front() == '-') {
        d.negative = true;
        s.remove_prefix(1);
    }
    const auto e = s.find('e');
    for (const char c : s.substr(0, e)) {
        if (c != '.') d.digits += c;
    }
    const std::string_view exponent = s.substr(s[e + 1] == '+' ? e + 2 : e + 1);
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), d.exponent);
    return d;
}

std::string without_zeros(std::string s) {
    s.erase(s.find_last_not_of('0') + 1);
    return s;
}

struct Parts {
    std::string whole, fraction;
};

/// Positional digits, zeros at the end dropped.
Parts positional(double value, DType dtype) {
    const Decimal d = parse(shortest(value, dtype));
    const int behind = static_cast<int>(d.digits.size()) - 1 - d.exponent;
    std::string fixed;
    if (behind > precision) {
        fixed = text(value, std::chars_format::fixed, precision);  // rounds the exact value
    } else {
        std::string digits = d.digits;
        if (d.exponent < 0) digits.insert(0, static_cast<std::size_t>(-d.exponent), '0');
        const auto whole = static_cast<std::size_t>(std::max(d.exponent, 0)) + 1;
        if (digits.size() < whole) digits.append(whole - digits.size(), '0');
        fixed = (d.negative ? "-" : "") + digits.substr(0, whole) + "." + digits.substr(whole);
    }
    const auto point = fixed.find('.');
    return {fixed.substr(0, point), without_zeros(fixed.substr(point + 1))};
}

std::string padded(const std::string& s, std::size_t width) {
    return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}

std::string not_finite(double v) { return std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf"; }

/// Words of numbers, given those of the finite ones; the others stand right-aligned.
std::vector<std::string> with_others(const std::vector<double>& values, std::vector<std::string> finite) {
    std::vector<std::string> words;
    std::size_t next = 0;
    for (const double v : values) words.push_back(std::isfinite(v) ? std::move(finite[next++]) : not_finite(v));
    return aligned(std::move(words));
}

std::vector<std::string> positional_words(const std::vector<double>& finite, DType dtype) {
    std::vector<Parts> parts;
    std::size_t left = 0, right = 0;
    for (const double v : finite) {
        parts.push_back(positional(v, dtype));
        left = std::max(left, parts.back().whole.size());
        right = std::max(right, parts.back().fraction.size());
    }
    std::vector<std::string> words;
    for (const Parts& p : parts) {
        words.push_back(padded(p.whole, left) + "." + p.fraction + std::string(right - p.fraction.size(), ' '));
    }
    return words;
}

std::vector<std::string> scientific_words(const std::vector<double>& finite, DType dtype) {
    int digits = 0;  // behind the point: as many as the number with most needs
    for (const double v : finite) {
        Decimal d = parse(shortest(v, dtype));
        if (static_cast<int>(d.digits.size()) - 1 > precision)
            d = parse(text(v, std::chars_format::scientific, precision));
        digits = std::max(digits, static_cast<int>(without_zeros(d.digits.substr(1)).size()));
    }
    std::vector<std::string> words;
    std::size_t exponent_width = 0;
    for (const double v : finite) {
        words.push_back(text(v, std::chars_format::scientific, digits));
        if (digits == 0) words.back().insert(words.back().find('e'), ".");
        exponent_width = std::max(exponent_width, words.back().size() - words.back().find('e'));
    }
    for (std::string& w : words) {
        const std::size_t e = w.find('e');
        w.insert(e + 2, exponent_width - (w.size() - e), '0');
    }
    return aligned(std::move(words));
}

/// Whether magnitudes ask for the scientific form, judged in the precision that they have.
template <class T> bool spread(T largest, T smallest, T limit) {
    return largest >= limit || smallest < T(0.0001) || largest / smallest > T(1000);
}

}  // namespace

std::vector<std::string> aligned(std::vector<std::string> words) {
    std::size_t width = 0;
    for (const std::string& w : words) width = std::max(width, w.size());
    for (std::string& w : words) w = padded(w, width);
    return words;
}

std::vector<std::string> float_words(const std::vector<double>& values, DType dtype) {
    std::vector<double> finite;
    double largest = 0, smallest = INFINITY;
    for (const double v : values) {
        if (!std::isfinite(v)) continue;
        finite.push_back(v);
        if (v == 0) continue;
        largest = std::max(largest, std::abs(v));
        smallest = std::min(smallest, std::abs(v));
    }
    const bool scientific =
        largest > 0 &&
        (dtype == f64 ? spread(largest, smallest, 1e8)
                      : spread(static_cast<float>(largest), static_cast<float>(smallest), dtype == f32 ? 1e6F : 1e3F));
    return with_others(values, scientific ? scientific_words(finite, dtype) : positional_words(finite, dtype));
}

}  // namespace calor::print
