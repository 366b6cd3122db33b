// The catalogue: errors.json, embedded at build time and parsed when the first error is thrown or explained.
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "calor/error.h"

namespace calor {

extern const char errors_json[];
extern const std::size_t errors_json_size;

std::string_view name_of(ErrorKind kind) {
    constexpr std::string_view names[] = {"shape", "dtype", "device", "value", "memory", "kernel", "io", "internal"};
    return names[static_cast<int>(kind)];
}

namespace {

ErrorKind kind_named(const std::string& name) {
    for (int k = 0; k < static_cast<int>(ErrorKind::internal); ++k) {
        if (name_of(static_cast<ErrorKind>(k)) == name) return static_cast<ErrorKind>(k);
    }
    return ErrorKind::internal;
}

std::vector<ErrorEntry> parse() {
    const auto document = nlohmann::json::parse(errors_json, errors_json + errors_json_size);
    std::vector<ErrorEntry> entries;
    for (const auto& e : document) {
        entries.push_back({.code = e.at("code"),
                           .kind = kind_named(e.at("kind")),
                           .message = e.at("message"),
                           .hint = e.at("hint"),
                           .meaning = e.at("meaning"),
                           .when = e.at("when"),
                           .fix = e.at("fix"),
                           .before = e.at("before"),
                           .after = e.at("after"),
                           .related = e.at("related").get<std::vector<std::string>>()});
    }
    std::ranges::sort(entries, {}, &ErrorEntry::code);
    return entries;
}

}  // namespace

const std::vector<ErrorEntry>& error_catalogue() {
    static const std::vector<ErrorEntry> entries = parse();
    return entries;
}

const ErrorEntry* find_error(std::string_view code) {
    const auto& all = error_catalogue();
    const auto it =
        std::ranges::lower_bound(all, code, {}, [](const ErrorEntry& e) { return std::string_view(e.code); });
    return it != all.end() && it->code == code ? &*it : nullptr;
}

}  // namespace calor
