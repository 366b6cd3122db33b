#include <limits>

#include "sweep.h"

namespace calor::testing::sweep {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t huge = std::int64_t{1} << 62;

struct Number {
    const char* label;
    std::int64_t value;
};
constexpr Number numbers[] = {{"-1", -1},
                              {"0", 0},
                              {"-7", -7},
                              {"2^32", std::int64_t{1} << 32},
                              {"2^30", std::int64_t{1} << 30},
                              {"2^62", huge},
                              {"-2^62", -huge},
                              {"max", most},
                              {"min", least},
                              {"-2^32", -(std::int64_t{1} << 32)}};
constexpr Number extremes[] = {{"-1", -1}, {"2^62", huge}, {"max", most}, {"min", least}};

constexpr DType dtypes[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean};

Shape shape_of(const std::string& axes) {
    Shape shape;
    for (const char letter : axes) {
        shape.push_back(letter >= '0' && letter <= '9' ? letter - '0' : size_of_letter(letter));
    }
    return shape;
}

class Maker {
public:
    explicit Maker(const Row& row) : row_(row) {
        good_.label = "good";
        for (const Input& input : row.tensors) {
            good_.tensors.push_back({.shape = shape_of(input.axes), .dtype = input.dtype, .below = input.below});
        }
        good_.integers = row.integers;
        good_.reals = row.reals;
        good_.lists = row.lists;
        cases_.push_back(good_);
    }

    std::vector<Case> make() {
        for (std::size_t t = 0; t < good_.tensors.size(); ++t) {
            undefined(t);
            ranks(t);
            shapes(t);
            indices(t);
            for (const DType dtype : dtypes) one_dtype(t, dtype);
        }
        for (const DType dtype : dtypes) all_dtypes(dtype);
        empty_axes();
        for (std::size_t l = 0; l < good_.lists.size(); ++l) lists(l);
        for (std::size_t r = 0; r < good_.reals.size(); ++r) reals(r);
        slots();
        return std::move(cases_);
    }

private:
    Case& add(std::string label) {
        cases_.push_back(good_);
        cases_.back().label = std::move(label);
        return cases_.back();
    }
    static std::string numbered(const char* kind, std::size_t i) { return kind + std::to_string(i); }

    void undefined(std::size_t t) { add(numbered("t", t) + " undefined").tensors[t].undefined = true; }

    void reshaped(std::size_t t, const std::string& label, const Shape& shape) {
        Case& c = add(numbered("t", t) + " " + label);
        c.tensors[t].shape = shape;
        c.shown = {to_string(shape), std::to_string(shape.rank()), "rank " + std::to_string(shape.rank() + 1),
                   std::to_string(shape.rank() - 2)};
        for (const std::int64_t size : shape) c.shown.push_back(std::to_string(size));
    }
    void ranks(std::size_t t) {
        const Shape& shape = good_.tensors[t].shape;
        for (std::int64_t rank = 0; rank < 3; ++rank) {
            if (rank != shape.rank()) reshaped(t, "rank " + std::to_string(rank), Shape(rank, 3));
        }
        Shape more = shape;
        more.insert(0, 2);
        reshaped(t, "rank + 1", more);
        for (const std::int64_t rank : {9, 12}) {
            Shape high = shape;
            while (high.rank() < rank) high.insert(0, 1);
            reshaped(t, "high rank " + std::to_string(rank), high);
        }
    }
    void shapes(std::size_t t) {
        for (std::int64_t a = 0; a < good_.tensors[t].shape.rank(); ++a) {
            for (const int change : {0, 1, 2}) {
                Shape shape = good_.tensors[t].shape;
                shape[a] = change == 0 ? 0 : change == 1 ? 1 : shape[a] + 1;
                const char* what = change == 0 ? " empty" : change == 1 ? " single" : " longer";
                reshaped(t, "axis " + std::to_string(a) + what, shape);
            }
        }
    }
    void indices(std::size_t t) {
        const std::int64_t below = good_.tensors[t].below;
        if (below == 0) return;
        const Number bad[] = {
            {"-1", -1}, {"past", below}, {"2^32", std::int64_t{1} << 32}, {"max", most}, {"min", least}};
        for (const Number& number : bad) {
            Case& c = add(numbered("t", t) + " index " + number.label);
            c.tensors[t].planted = true;
            c.tensors[t].plant = number.value;
            c.shown = {std::to_string(number.value)};
        }
    }
    void one_dtype(std::size_t t, DType dtype) {
        Case& c = add(numbered("t", t) + " dtype " + std::string(name_of(dtype)));
        c.tensors[t].dtype = dtype;
        c.shown = {std::string(name_of(dtype))};
    }
    void all_dtypes(DType dtype) {
        Case c = good_;
        c.label = "dtype " + std::string(name_of(dtype));
        c.shown = {std::string(name_of(dtype))};
        int changed = 0;
        for (TensorCase& t : c.tensors) {
            if (t.below > 0 || t.dtype != good_.tensors[0].dtype) continue;
            t.dtype = dtype;
            ++changed;
        }
        if (changed > 1) cases_.push_back(c);
    }
    void empty_axes() {
        std::string letters;
        for (const Input& input : row_.tensors) {
            for (const char letter : input.axes) {
                if (letters.find(letter) == std::string::npos) letters += letter;
            }
        }
        for (const char letter : letters) {
            Case& c = add(std::string("empty ") + letter);
            c.empty = true;
            for (std::size_t t = 0; t < row_.tensors.size(); ++t) {
                const std::string& axes = row_.tensors[t].axes;
                for (std::size_t a = 0; a < axes.size(); ++a) {
                    if (axes[a] == letter) c.tensors[t].shape[static_cast<std::int64_t>(a)] = 0;
                }
            }
        }
    }
    void lists(std::size_t l) {
        const Dims& list = good_.lists[l];
        const std::string name = numbered("l", l);
        const auto change = [&](const std::string& label, const Dims& to) {
            Case& c = add(name + " " + label);
            c.lists[l] = to;
            c.shown = {to_string(to), std::to_string(to.rank())};
        };
        const std::int64_t last = list.empty() ? 1 : list.back();
        change("empty", Dims());
        Dims other = list;
        other.push_back(last);
        change("longer", other);
        other.resize(70);
        std::fill(other.begin(), other.end(), last);
        change("of 70", other);
        if (list.rank() > 1) {
            other = list;
            other.resize(list.rank() - 1);
            change("shorter", other);
        }
    }
    void reals(std::size_t r) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::pair<const char*, double> bad[] = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                                                      {"inf", infinity},
                                                      {"-inf", -infinity},
                                                      {"-1", -1.0},
                                                      {"0", 0.0},
                                                      {"1e308", 1e308},
                                                      {"-1e308", -1e308},
                                                      {"1e-320", 1e-320}};
        for (const auto& [label, value] : bad) {
            Case& c = add(numbered("r", r) + " = " + label);
            c.reals[r] = value;
            c.shown = {label, "NaN", "1e+308", "1e-320"};
        }
    }

    /// A number of a case: an integer, or an entry of a list.
    struct Slot {
        std::string label;
        std::size_t index;
        std::int64_t entry;  ///< -1: an integer
    };
    static void put(Case& c, const Slot& slot, std::int64_t value) {
        (slot.entry < 0 ? c.integers[slot.index] : c.lists[slot.index][slot.entry]) = value;
    }
    void slots() {
        std::vector<Slot> all;
        for (std::size_t i = 0; i < good_.integers.size(); ++i) all.push_back({numbered("i", i), i, -1});
        for (std::size_t l = 0; l < good_.lists.size(); ++l) {
            for (std::int64_t e = 0; e < good_.lists[l].rank(); ++e) {
                all.push_back({numbered("l", l) + "[" + std::to_string(e) + "]", l, e});
            }
        }
        for (const Slot& slot : all) {
            for (const Number& number : numbers) {
                Case& c = add(slot.label + " = " + number.label);
                put(c, slot, number.value);
                c.shown = {std::to_string(number.value)};
                if (number.value == -1) c.shown.push_back("axis");  // counted from the end, resolved
                if (number.value > 0) c.shown.push_back(std::to_string(number.value - 1));  // the last below
            }
        }
        for (std::size_t a = 0; a < all.size(); ++a) {
            for (std::size_t b = a + 1; b < all.size(); ++b) pairs(all[a], all[b]);
        }
    }
    void pairs(const Slot& a, const Slot& b) {
        const std::size_t step = sanitized() ? 2 : 1;
        for (std::size_t i = 0; i < std::size(extremes); i += step) {
            for (std::size_t k = i / 2 % step; k < std::size(extremes); k += step) {
                const Number &x = extremes[i], &y = extremes[k];
                Case& c = add("pair " + a.label + " = " + x.label + ", " + b.label + " = " + y.label);
                put(c, a, x.value);
                put(c, b, y.value);
                c.shown = {std::to_string(x.value), std::to_string(y.value), "axis"};
            }
        }
    }

    const Row& row_;
    Case good_;
    std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> cases_of(const Row& row) { return Maker(row).make(); }

}  // namespace calor::testing::sweep
