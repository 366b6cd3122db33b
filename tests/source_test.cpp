// What can be read off the source: every code that is thrown is in the catalogue, every entry is thrown somewhere and
// complete, and some test provokes it by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "calor/error.h"

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// All strings of the form "family/name" in the sources of a folder, with a file that has them.
std::map<std::string, std::string> codes_in(const std::string& folder, const std::regex& pattern) {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(CALOR_SOURCE_DIR) / folder)) {
        const auto extension = entry.path().extension();
        if (extension != ".cpp" && extension != ".h") continue;
        const std::string text = read(entry.path());
        for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it) {
            found.emplace((*it)[1], entry.path().filename().string());
        }
    }
    return found;
}

TEST(Catalogue, HasEveryCodeThatIsThrown) {
    const std::regex thrown(R"re(fail\w*\(\s*"([a-z0-9-]+/[a-z0-9-]+)")re");
    const auto codes = codes_in("src", thrown);
    EXPECT_GT(codes.size(), 20U);
    for (const auto& [code, file] : codes) EXPECT_NE(calor::find_error(code), nullptr) << code << " in " << file;
}

TEST(Catalogue, HasNoEntryThatNobodyThrows) {
    const auto mentioned = codes_in("src", std::regex(R"re("([a-z0-9-]+/[a-z0-9-]+)")re"));
    for (const auto& entry : calor::error_catalogue()) EXPECT_TRUE(mentioned.contains(entry.code)) << entry.code;
}

TEST(Catalogue, HasATestForEveryEntry) {
    const auto tested = codes_in("tests", std::regex(R"re("([a-z0-9-]+/[a-z0-9-]+)[:"])re"));
    for (const auto& entry : calor::error_catalogue()) {
        EXPECT_TRUE(tested.contains(entry.code)) << entry.code << " is provoked by no test";
    }
}

TEST(Catalogue, EntriesAreWhole) {
    const auto& all = calor::error_catalogue();
    EXPECT_TRUE(std::ranges::is_sorted(all, {}, &calor::ErrorEntry::code));
    std::set<std::string> seen;
    for (const auto& e : all) {
        EXPECT_TRUE(seen.insert(e.code).second) << e.code << " stands twice";
        EXPECT_TRUE(std::regex_match(e.code, std::regex("[a-z0-9-]+/[a-z0-9-]+"))) << e.code;
        for (const std::string* text : {&e.message, &e.hint, &e.meaning, &e.when, &e.fix, &e.before, &e.after}) {
            EXPECT_FALSE(text->empty()) << e.code;
        }
        EXPECT_NE(e.before, e.after) << e.code;
        for (const auto& other : e.related) {
            EXPECT_NE(calor::find_error(other), nullptr) << e.code << " is related to the unknown " << other;
        }
    }
    EXPECT_EQ(calor::find_error("no/such-code"), nullptr);
}

/// Files stay short enough to read: none above 600 lines.
// OpenCL C 1.2 has no variadic macros and reserves vector names of bool; some compilers take both, others refuse.
TEST(Source, KernelsKeepToOpenClWords) {
    const std::regex refused(R"re(#define[^\n]*\.\.\.\)|__VA_ARGS__|\bbool(2|3|4|8|16)\b)re");
    int kernels = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(CALOR_SOURCE_DIR) / "src")) {
        if (entry.path().extension() != ".kernel") continue;
        ++kernels;
        EXPECT_FALSE(std::regex_search(read(entry.path()), refused)) << entry.path();
    }
    EXPECT_GT(kernels, 5);
}

TEST(Source, FilesAreShort) {
    for (const char* folder : {"src", "include", "tests", "bench", "examples"}) {
        for (const auto& entry : fs::recursive_directory_iterator(fs::path(CALOR_SOURCE_DIR) / folder)) {
            const auto extension = entry.path().extension();
            if (extension != ".cpp" && extension != ".h") continue;
            const std::string text = read(entry.path());
            EXPECT_LE(std::ranges::count(text, '\n'), 600) << entry.path();
        }
    }
}

}  // namespace
