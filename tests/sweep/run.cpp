#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstring>

#include "device/device.h"
#include "graph/node.h"
#include "sweep.h"

namespace calor::testing::sweep {
namespace {

constexpr std::int64_t readable = std::int64_t{1} << 16;  // elements: larger results are views of few

/// Fills the allocator's free blocks of all sizes that occur here, so that whoever reads before it writes is seen.
void poison(int byte) {
    Backend& memory = backend({});
    std::vector<Ref<Storage>> held;
    for (std::int64_t octave = 64; octave <= 4096; octave *= 2) {
        const std::int64_t step = std::max<std::int64_t>(64, octave / 8);
        for (std::int64_t bytes = octave; bytes < 2 * octave; bytes += step) {
            for (int copies = 0; copies < 3; ++copies) {
                held.push_back(memory.allocate(bytes, "sweep", Where::current()));
                std::memset(held.back()->data, byte, static_cast<std::size_t>(bytes));
            }
        }
    }
}

Tensor made(const TensorCase& t) {
    if (t.undefined) return {};
    const std::int64_t count = numel(t.shape);
    if (t.below > 0) {
        std::vector<std::int64_t> values(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = (i * 7 + 1) % t.below;
        if (t.planted) values.back() = t.plant;
        return tensor(values, t.shape).to(t.dtype).eval();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        double& value = values[static_cast<std::size_t>(i)];
        value = is_floating(t.dtype) ? 0.1 + 0.8 * static_cast<double>((i * 37 + 11) % 101) / 101
                                     : static_cast<double>((i * 7 + 1) % (t.dtype == boolean ? 2 : 5));
    }
    return tensor(values, t.shape).to(t.dtype).eval();
}

Arguments arguments_of(const Case& c, bool tracked) {
    Arguments arguments{{}, c.integers, c.reals, c.lists};
    for (const TensorCase& t : c.tensors) {
        Tensor x = made(t);
        if (tracked && x.defined() && is_floating(x.dtype())) x = x.requires_grad();
        arguments.tensors.push_back(x);
    }
    return arguments;
}

/// The evaluated elements.
std::string bytes_of(const Tensor& t) {
    t.eval();
    if (t.numel() > readable) return {};
    const Tensor dense = contiguous(t).eval();
    const View view = graph::view_of(graph::value_of(dense));
    const auto size = static_cast<std::size_t>(t.numel() * size_of(t.dtype()));
    std::string bytes(view.as<char>(), size);
    if (t.dtype() == boolean) {
        for (const char b : bytes) EXPECT_TRUE(b == 0 || b == 1) << "a bool of value " << static_cast<int>(b);
    }
    return bytes;
}

bool all_zero(const Tensor& t) { return t.numel() == 0 || !any(t).item<bool>(); }

/// Gradients of the sum of all results, of first and second order.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& results, const Arguments& arguments, const Case& c) {
    Tensor loss;
    bool nothing = true;
    for (const Tensor& result : results) {
        if (!result.defined() || !result.tracked() || result.numel() > readable) continue;
        nothing = nothing && result.numel() == 0;
        const Tensor part = sum(result.to(f64));
        loss = loss.defined() ? loss + part : part;
    }
    if (!loss.defined()) return {};
    const Gradients first = backward(loss, {.create_graph = true});
    std::vector<Tensor> all;
    Tensor second_loss;
    for (const Tensor& x : arguments.tensors) {
        if (!x.defined() || !x.tracked()) continue;
        const Tensor gradient = first.get(x);
        if (!gradient.defined()) continue;
        EXPECT_EQ(gradient.shape(), x.shape());
        EXPECT_EQ(gradient.dtype(), x.dtype());
        EXPECT_TRUE(!c.empty || !nothing || all_zero(gradient)) << "the gradient of nothing is not zero";
        all.push_back(gradient);
        if (!gradient.tracked()) continue;
        const Tensor part = sum(square(gradient.to(f64)));
        second_loss = second_loss.defined() ? second_loss + part : part;
    }
    if (second_loss.defined() && second_loss.tracked()) {
        const Gradients second = backward(second_loss);
        for (const Tensor& x : arguments.tensors) {
            if (x.defined() && second.contains(x)) all.push_back(second.get(x));
        }
    }
    return all;
}

struct Outcome {
    std::vector<std::string> results, gradients;
    std::vector<Shape> shapes;
};

/// Whether the function has returned: what fails afterwards is the reverse pass, which names its operations.
bool returned = false;

Outcome attempt(const Row& row, const Case& c, bool tracked, int byte) {
    returned = false;
    const Arguments arguments = arguments_of(c, tracked);
    manual_seed(7);
    poison(byte);
    Outcome outcome;
    const std::vector<Tensor> results = row.call(arguments);
    for (const Tensor& result : results) {
        if (!result.defined()) continue;
        outcome.shapes.push_back(result.shape());
        outcome.results.push_back(bytes_of(result));
    }
    returned = true;
    if (!tracked) return outcome;
    poison(byte);
    for (const Tensor& gradient : gradients_of(results, arguments, c)) outcome.gradients.push_back(bytes_of(gradient));
    return outcome;
}

const Must* demand(const Row& row, const Case& c) {
    for (const Must& must : row.must) {
        if (c.label.starts_with(must.label)) return &must;
    }
    return nullptr;
}

/// Whether a text has a part that is not only a piece of a longer number or word.
bool contains(const std::string& text, const std::string& part) {
    const auto joins = [&](std::size_t i) {
        return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
    };
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        const bool number = std::isdigit(static_cast<unsigned char>(part.back()));
        if (!number || (!joins(at + part.size()) && (at == 0 || !joins(at - 1)))) return true;
    }
    return false;
}

void check_error(const Row& row, const Case& c, const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(find_error(error.code()), nullptr) << text;
    const std::string function =
        row.name.substr(row.name.rfind(':') == std::string::npos ? 0 : row.name.rfind(':') + 1);
    EXPECT_TRUE(returned || error.operation() == function ||
                std::ranges::find(row.operations, error.operation()) != row.operations.end())
        << "not the function that was called\n"
        << text;
    EXPECT_GT(error.hint().size(), 1U) << text;
    EXPECT_NE(std::string(error.where().file_name()).find("sweep"), std::string::npos) << "not the caller's file\n"
                                                                                       << text;
    EXPECT_NE(error.code(), "internal/state") << text;
    EXPECT_NE(error.code(), "kernel/failed") << text;
    for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
        EXPECT_FALSE(std::isalpha(static_cast<unsigned char>(text[at + 1]))) << "unfilled field in: " << text;
    }
    if (c.label == "good") ADD_FAILURE() << "the good call fails\n" << text;
    for (const char* code : {"memory/exhausted", "shape/overflow", "conv/kernel-too-large", "pool/kernel-too-large",
                             "unfold/kernel-too-large", "device/unavailable"}) {
        if (error.code() == code) return;  // these show what came of it
    }
    const auto shows = [&](const std::string& what) { return contains(text, what); };
    EXPECT_TRUE(!row.shows || c.shown.empty() || std::ranges::any_of(c.shown, shows)) << "what came is not shown\n"
                                                                                      << text;
}

}  // namespace

void run(const Row& row, const Case& c) {
    const Must* must = demand(row, c);
    try {
        const Outcome plain = attempt(row, c, false, 0xff);
        if (must) ADD_FAILURE() << "no error, expected " << must->code;
        const Outcome tracked = attempt(row, c, true, 0xff), zeros = sanitized() ? tracked : attempt(row, c, true, 0);
        EXPECT_EQ(plain.shapes, tracked.shapes);
        EXPECT_TRUE(plain.results == tracked.results && plain.results == zeros.results)
            << "the result depends on what the memory held";
        EXPECT_TRUE(tracked.gradients == zeros.gradients) << "the gradient depends on what the memory held";
    } catch (const Error& error) {
        if (must) {
            EXPECT_EQ(error.code(), must->code) << error.what();
        }
        check_error(row, c, error);
    } catch (const std::exception& error) {
        ADD_FAILURE() << "not an Error: " << error.what();
    }
}

}  // namespace calor::testing::sweep
