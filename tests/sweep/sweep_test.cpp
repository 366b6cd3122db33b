// Runs every row of the sweep, and checks that every public function has one.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <unistd.h>

#include "sweep.h"

namespace fs = std::filesystem;

namespace calor::testing::sweep {

const Table& all_rows() {
    static const Table all = [] {
        Table rows;
        for (const auto table : {creation_rows, tensor_rows, elementwise_rows, activation_rows, reduce_rows, view_rows,
                                 index_rows, product_rows, spatial_rows, window_rows, sort_rows, scan_rows,
                                 resample_rows, norm_rows, random_rows, loss_rows, layer_rows, autodiff_rows}) {
            for (Row& row : table()) rows.push_back(std::move(row));
        }
        return rows;
    }();
    return all;
}

namespace {

/// The case that runs: a crash tells it.
char running[512] = "";
void tell(int signal_number) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, running, strlen(running));
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

class Sweep : public ::testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override {
        for (const int s : {SIGSEGV, SIGFPE, SIGABRT, SIGTERM}) std::signal(s, tell);
        set_memory_limit(memory_statistics().in_use + (std::int64_t{16} << 20));
    }
    void TearDown() override { set_memory_limit(0); }
};

TEST_P(Sweep, BadInput) {
    const Row& row = all_rows()[GetParam()];
    std::set<std::string> unmet;
    for (const Must& must : row.must) unmet.insert(must.label);
    for (const Case& c : cases_of(row)) {
        const std::string label = row.name + " " + row.variant + ": " + c.label;
        std::snprintf(running, sizeof running, "\nin the case: %s\n", label.c_str());
        if (std::getenv("CALOR_SWEEP_TRACE")) std::fputs(running, stderr);
        SCOPED_TRACE(label);
        run(row, c);
        std::erase_if(unmet, [&](const std::string& prefix) { return c.label.starts_with(prefix); });
    }
    for (const std::string& label : unmet) ADD_FAILURE() << row.name << ": no case is called '" << label << "'";
}

std::string test_name(const ::testing::TestParamInfo<std::size_t>& info) {
    const Row& row = all_rows()[info.param];
    return std::regex_replace(row.name + (row.variant.empty() ? "" : "_" + row.variant), std::regex("[^A-Za-z0-9]+"),
                              "_");
}
INSTANTIATE_TEST_SUITE_P(Functions, Sweep, ::testing::Range(std::size_t{0}, all_rows().size()), test_name);

/// Functions that return tensors, and modules that take one, by their qualified names without "calor::"; with the
/// header of each. Declarations start their line, members are indented.
std::map<std::string, std::string> declared() {
    const std::regex opening(R"(^namespace (?:calor)?(?:::)?([\w:]*) ?\{)"), closing(R"(^\}  // namespace)");
    const std::regex function(
        R"(^(?:inline )?(?:template <.*> )?(?:Tensor|std::vector<Tensor>|std::pair<Tensor.*>|\w+Result|RunningExtreme) (\w+)\()");
    const std::regex type(R"(^(?:template <.*> )?(?:class|struct) (\w+)[^;]*\{)");
    const std::regex call(R"(^    Tensor operator\(\)\(const Tensor)");
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(CALOR_SOURCE_DIR) / "include/calor")) {
        std::ifstream in(entry.path());
        std::vector<std::string> spaces;
        std::string line, last_type;
        std::smatch match;
        while (std::getline(in, line)) {
            std::string prefix;
            for (const std::string& space : spaces) prefix += space.empty() ? "" : space + "::";
            if (prefix.find("detail") != std::string::npos && !std::regex_search(line, closing)) continue;
            const auto note = [&](const std::string& name) {
                found.emplace(prefix + name, fs::relative(entry.path(), CALOR_SOURCE_DIR).string());
            };
            if (std::regex_search(line, match, opening))
                spaces.push_back(match[1]);
            else if (std::regex_search(line, closing) && !spaces.empty())
                spaces.pop_back();
            else if (std::regex_search(line, match, function))
                note(match[1]);
            else if (std::regex_search(line, match, type))
                last_type = match[1];
            else if (std::regex_search(line, call))
                note(last_type);
        }
    }
    return found;
}

TEST(SweepTable, HasEveryPublicFunction) {
    // What a row cannot express has tests of its own.
    const std::map<std::string, std::string> elsewhere = {
        {"from_dlpack", "dlpack_test"}, {"data::read_idx", "data_test"}, {"data::read_image", "data_test"}};
    std::set<std::string> rows;
    for (const Row& row : all_rows()) rows.insert(row.name);
    const auto functions = declared();
    EXPECT_GT(functions.size(), 200U);
    for (const auto& [name, header] : functions) {
        EXPECT_TRUE(rows.contains(name) || elsewhere.contains(name))
            << "no row calls " << name << " of " << header
            << ": add one to the table of its topic in tests/sweep (sweep.h says how)";
    }
    for (const std::string& name : rows) {
        EXPECT_TRUE(functions.contains(name) || name.starts_with("Tensor::"))
            << "a row calls " << name << ", which is not declared";
    }
}

}  // namespace
}  // namespace calor::testing::sweep
