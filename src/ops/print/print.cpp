// Printing: which elements are shown, and how lines break. The rules are NumPy's array2string and repr.
#include "calor/print.h"

#include <ostream>

#include "calor/view.h"
#include "core/fail.h"
#include "ops/print/numbers.h"

namespace calor {
namespace {

constexpr std::int64_t threshold = 1000, edge = 3;
constexpr std::size_t line_width = 75;
constexpr std::string_view prefix = "tensor(", between = ", ", dots = "...";

/// The first and last three entries of every axis.
Tensor edges_of(Tensor t, const Where& where) {
    for (std::int64_t a = 0; a < t.rank(); ++a) {
        if (t.shape()[a] <= 2 * edge) continue;
        t = concat({slice(t, a, {0, edge}, where), slice(t, a, {-edge, std::nullopt}, where)}, a, where);
    }
    return t;
}

template <class T> std::vector<std::string> integer_words(const std::vector<T>& values) {
    std::vector<std::string> words;
    for (const T v : values) words.push_back(std::to_string(v));
    return print::aligned(std::move(words));
}

std::vector<std::string> words_of(const Tensor& t, const Where& where) {
    if (t.dtype() == boolean) {
        std::vector<std::string> words;
        for (const std::uint8_t v : t.to(u8, where).to_vector<std::uint8_t>(where)) {
            words.emplace_back(v != 0 ? (t.rank() == 0 ? "True" : " True") : "False");
        }
        return words;
    }
    if (t.dtype() == u64) return integer_words(t.to_vector<std::uint64_t>(where));
    if (is_integer(t.dtype())) return integer_words(t.to(i64, where).to_vector<std::int64_t>(where));
    return print::float_words(t.to(f64, where).to_vector<double>(where), t.dtype());
}

class Layouter {
public:
    Layouter(const Shape& full, std::vector<std::string> words, bool summary, std::size_t width)
        : full_(full), words_(std::move(words)), summary_(summary), width_(width) {}

    std::string run() { return nested(0, std::string(prefix.size() + 1, ' '), width_); }

private:
    /// Adds a word to the line, which is put into `text` when the word would pass the width.
    static void extend(std::string& text, std::string& line, std::string_view word, std::size_t width,
                       const std::string& indent) {
        if (line.size() + word.size() > width && line.size() > indent.size()) {
            line.erase(line.find_last_not_of(' ') + 1);
            text += line + "\n";
            line = indent;
        }
        line += word;
    }

    std::string nested(std::int64_t axis, const std::string& indent, std::size_t width) {
        if (axis == full_.rank()) return words_[next_++];
        const std::int64_t left = full_.rank() - axis, size = full_[axis];
        const bool cut = summary_ && size > 2 * edge;
        const std::int64_t shown = cut ? 2 * edge : size;
        const bool last_axis = left == 1;
        std::string text, line = last_axis ? indent : "";
        for (std::int64_t i = 0; i < shown; ++i) {
            if (cut && i == edge) add(text, line, dots, last_axis, false, left, width, indent);
            add(text, line, nested(axis + 1, indent + " ", width - 1), last_axis, i + 1 == shown, left, width, indent);
        }
        text += line;
        return "[" + text.substr(indent.size()) + "]";
    }

    static void add(std::string& text, std::string& line, std::string_view item, bool last_axis, bool last_item,
                    std::int64_t left, std::size_t width, const std::string& indent) {
        if (last_axis) {
            extend(text, line, item, width - 1, indent);
            if (!last_item) line += between;
            return;
        }
        text += indent;
        text += item;
        if (!last_item) text += "," + std::string(static_cast<std::size_t>(left - 1), '\n');
    }

    const Shape& full_;
    std::vector<std::string> words_;
    bool summary_;
    std::size_t width_, next_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor, const Where& where) {
    if (!tensor.defined()) return "tensor(undefined)";
    const DType dtype = tensor.dtype();
    const bool suffixed = dtype != f32 && dtype != i64 && dtype != boolean;
    const bool empty = tensor.numel() == 0, summary = tensor.numel() > threshold;
    std::string text(prefix), extras;
    if (empty) {
        text += "[]";
    } else {
        const NoGrad guard;
        const Tensor shown = summary ? edges_of(tensor, where) : tensor;
        text += Layouter(tensor.shape(), words_of(shown, where), summary, line_width - 1).run();
    }
    if (summary || (empty && tensor.rank() != 1)) extras = "shape=" + to_string(tensor.shape());
    if (suffixed) extras += (extras.empty() ? "dtype=" : ", dtype=") + std::string(name_of(dtype));
    if (extras.empty()) return text + ")";
    text += ",";
    extras += ")";
    const std::size_t last_line = text.size() - (text.rfind('\n') + 1);
    const bool wraps = last_line + extras.size() + 1 > line_width;
    return text + (wraps ? "\n" + std::string(prefix.size(), ' ') : " ") + extras;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace calor
