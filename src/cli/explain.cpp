// calor explain: prints catalogue entries for the terminal, or all of them as JSON or Markdown (docs/errors.md is made
// so).
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calor/error.h"
#include "cli/commands.h"

namespace calor::cli {
namespace {

nlohmann::ordered_json to_json(const ErrorEntry& e) {
    return {{"code", e.code},       {"kind", name_of(e.kind)}, {"message", e.message}, {"hint", e.hint},
            {"meaning", e.meaning}, {"when", e.when},          {"fix", e.fix},         {"before", e.before},
            {"after", e.after},     {"related", e.related}};
}

std::string joined(const std::vector<std::string>& words) {
    std::string all;
    for (const auto& w : words) all += (all.empty() ? "" : ", ") + w;
    return all;
}

void print_entry(const ErrorEntry& e) {
    fmt::print("{} ({} error)\n\n  {}\n\n", e.code, name_of(e.kind), e.meaning);
    fmt::print("  message  {}\n  when     {}\n  fix      {}\n\n", e.message, e.when, e.fix);
    fmt::print("  before   {}\n  after    {}\n", e.before, e.after);
    if (!e.related.empty()) fmt::print("\n  related  {}\n", joined(e.related));
}

void print_markdown() {
    fmt::print(
        "# Errors\n\nEvery error that calor throws has a code. `calor explain CODE` prints an entry in the terminal; "
        "this page is\n"
        "`calor explain --markdown`.\n");
    for (const ErrorEntry& e : error_catalogue()) {
        fmt::print("\n## {}\n\n{}\n\n- Kind: {}\n- Message: `{}`\n- When: {}\n- Fix: {}\n", e.code, e.meaning,
                   name_of(e.kind), e.message, e.when, e.fix);
        if (!e.related.empty()) fmt::print("- Related: {}\n", joined(e.related));
        fmt::print("\n```cpp\n{}  // provokes it\n{}  // does not\n```\n", e.before, e.after);
    }
}

/// The code that shares the longest beginning with a mistyped one.
std::string closest(const std::string& code) {
    std::string best;
    std::size_t most = 0;
    for (const ErrorEntry& e : error_catalogue()) {
        const auto [a, b] = std::ranges::mismatch(code, e.code);
        const auto common = static_cast<std::size_t>(a - code.begin());
        if (common > most) {
            most = common;
            best = e.code;
        }
    }
    return best;
}

}  // namespace

int explain(const ExplainOptions& options) {
    if (options.json) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const ErrorEntry& e : error_catalogue()) all.push_back(to_json(e));
        fmt::print("{}\n", all.dump(2));
        return 0;
    }
    if (options.markdown) {
        print_markdown();
        return 0;
    }
    if (options.code.empty()) {
        for (const ErrorEntry& e : error_catalogue()) fmt::print("{:<24} {}\n", e.code, e.meaning);
        return 0;
    }
    const ErrorEntry* entry = find_error(options.code);
    if (!entry) {
        const std::string near = closest(options.code);
        throw UsageError(fmt::format("there is no error code '{}'{} (calor explain lists them)", options.code,
                                     near.empty() ? "" : "; did you mean " + near + "?"));
    }
    print_entry(*entry);
    return 0;
}

}  // namespace calor::cli
