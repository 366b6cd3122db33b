// The table of all operations: nothing is left out of it, every list of implementations ends in a reference, and what
// has no gradient is known by name. docs/operations.md is made from it (CALOR_WRITE_DOCS=1 writes it).
#include "ops/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace ca = calor;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Registry, NamesAreUnique) {
    std::set<std::string_view> names;
    for (const auto* op : ca::ops::all_descriptors()) EXPECT_TRUE(names.insert(op->name).second) << op->name;
    EXPECT_GT(names.size(), 150U);
}

TEST(Registry, ListsOfImplementationsEndInOneThatRefusesNothing) {
    for (const auto* op : ca::ops::all_descriptors()) {
        EXPECT_NE(op->infer, nullptr) << op->name;
        if (op->row || (op->traits & ca::graph::view)) continue;  // the engine's own loops; aliases
        ASSERT_NE(op->implementations, nullptr) << op->name;
        const auto list = op->implementations(ca::DeviceKind::cpu);
        ASSERT_FALSE(list.empty()) << op->name;
        if (list.size() > 1) {
            EXPECT_EQ(list.back().name, "reference") << op->name;
        }
        EXPECT_EQ(list.back().why_not, nullptr) << op->name << ": the last one refuses nothing";
        for (const auto& implementation : list) EXPECT_NE(implementation.run, nullptr) << op->name;
    }
}

/// What the CPU computes, GPUs compute: no list is missing, and each ends in an implementation that refuses nothing.
TEST(Registry, EveryOperationRunsOnGpus) {
    for (const auto* op : ca::ops::all_descriptors()) {
        if (op->row || !op->implementations) continue;  // fused programs; aliases that are never copied
        for (const ca::DeviceKind kind : {ca::DeviceKind::cuda, ca::DeviceKind::opencl}) {
            const auto list = op->implementations_on(kind);
            EXPECT_FALSE(list.empty()) << op->name << " has no kernel";
            if (list.empty()) continue;
            EXPECT_EQ(list.back().why_not, nullptr) << op->name << ": the last one refuses nothing";
            for (const auto& implementation : list) EXPECT_NE(implementation.run, nullptr) << op->name;
        }
    }
}

TEST(Registry, WhatHasNoGradientIsKnown) {
    // Constant in their inputs, or without real inputs: numbers from nowhere, places, truth values.
    // (deform_conv records deform_conv_grad only where no further differentiation is asked for.)
    const std::set<std::string_view> without{"deform_conv_grad",

                                             "all",
                                             "any",
                                             "arange",
                                             "argmax",
                                             "argmin",
                                             "bernoulli",
                                             "bernoulli_of",
                                             "count_nonzero",
                                             "eye",
                                             "linspace",
                                             "logspace",
                                             "normal",
                                             "one_hot",
                                             "permutation",
                                             "pool_indices",
                                             "randint",
                                             "truncated_normal",
                                             "uniform"};
    for (const auto* op : ca::ops::all_descriptors()) {
        if (op->row) continue;  // elementwise rows say it in docs/elementwise.md
        EXPECT_EQ(op->gradient == nullptr, without.contains(op->name)) << op->name;
    }
}

/// Every descriptor that a file defines is in its list.
TEST(Registry, NothingIsLeftOut) {
    const std::regex defined(R"(const graph::Operation (\w+)\s*(?:\{|=))");
    int found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(CALOR_SOURCE_DIR "/src/ops")) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = read(entry.path());
        const std::size_t list = text.find("_descriptors() {");
        for (auto it = std::sregex_iterator(text.begin(), text.end(), defined); it != std::sregex_iterator(); ++it) {
            const std::string name = (*it)[1];
            if (name == "op") continue;  // made by a template whose instances are listed
            ++found;
            ASSERT_NE(list, std::string::npos) << entry.path() << " lists no descriptors";
            EXPECT_TRUE(std::regex_search(text.substr(list), std::regex("[&:]" + name + "\\b")))
                << name << " in " << entry.path();
        }
    }
    EXPECT_GT(found, 60);
}

std::string traits_of(const ca::graph::Operation& op) {
    std::string text;
    for (const auto& [bit, name] : {std::pair{ca::graph::view, "view"},
                                    {ca::graph::linear, "linear"},
                                    {ca::graph::reduction, "reduction"},
                                    {ca::graph::contraction, "contraction"},
                                    {ca::graph::random, "random"},
                                    {ca::graph::indexing, "indexing"}}) {
        if (op.traits & bit) text += std::string(text.empty() ? "" : ", ") + name;
    }
    return text;
}

std::string page() {
    std::string text =
        "# Operations\n\nMade from the descriptors by `CALOR_WRITE_DOCS=1 registry_test`. What is recorded in a graph; "
        "public functions\nthat are made of these have no line. Elementwise operations are in "
        "[elementwise.md](elementwise.md), and run on every\ndevice. Implementations are tried in this order; the last "
        "one takes any rank, any strides and every dtype that the\noperation accepts (f64 where the device computes in "
        "it), so that all devices support the same. GPUs: CUDA and OpenCL.\nGradients are made of these operations and "
        "run where their operands lie.\n\n| operation | kind | gradient | on the CPU | on GPUs "
        "|\n|---|---|---|---|---|\n";
    auto all = ca::ops::all_descriptors();
    std::ranges::sort(all, {}, [](const auto* op) { return op->name; });
    for (const auto* op : all) {
        if (op->row) continue;
        const auto names = [&](ca::DeviceKind kind) {
            std::string list;
            for (const auto& i : op->implementations_on(kind)) list += (list.empty() ? "" : ", ") + std::string(i.name);
            return list.empty() ? std::string("none needed") : list;
        };
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", op->name, traits_of(*op), op->gradient ? "any order" : "",
                            names(ca::DeviceKind::cpu), names(ca::DeviceKind::cuda));
    }
    return text;
}

TEST(Registry, Page) {
    const std::string path = CALOR_SOURCE_DIR "/docs/operations.md", text = page();
    if (std::getenv("CALOR_WRITE_DOCS")) std::ofstream(path) << text;
    EXPECT_EQ(read(path), text) << "docs/operations.md is out of date: CALOR_WRITE_DOCS=1 writes it";
}

}  // namespace
