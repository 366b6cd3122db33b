#include "device/gpu/disk_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace fs = std::filesystem;

namespace calor::gpu {
namespace {

constexpr std::int64_t bound = 512 << 20;  // bytes; a fifth is freed when they are passed
constexpr std::string_view suffixes[] = {".kernel-binary", ".kernel-choice"};  // by CacheKind
constexpr std::string_view magic = "calor kernel 1\n";

std::uint64_t mix(std::string_view text, std::uint64_t seed) {  // FNV-1a, and a finish that spreads the last bytes
    std::uint64_t h = 0xcbf29ce484222325ULL ^ seed;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    return h ^ (h >> 33);
}

fs::path file_of(const std::string& key, CacheKind kind) {
    return fs::path(cache_folder()) / (key + std::string(suffixes[static_cast<std::size_t>(kind)]));
}

struct Entry {
    fs::path path;
    std::int64_t bytes;
    fs::file_time_type used;
    bool choice;
};

std::vector<Entry> entries() {
    std::vector<Entry> list;
    std::error_code error;
    const std::string folder = cache_folder();
    if (folder.empty()) return list;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
        const std::string name = it->path().filename().string();
        const bool choice = name.ends_with(suffixes[1]);
        if (!choice && !name.ends_with(suffixes[0])) continue;
        std::error_code gone;
        const auto bytes = it->file_size(gone);
        const auto used = it->last_write_time(gone);
        if (!gone) list.push_back({it->path(), static_cast<std::int64_t>(bytes), used, choice});
    }
    return list;
}

/// Frees room now and then, not at every file.
void keep_bound() {
    static std::atomic<int> writes{0};
    if (writes.fetch_add(1) % 64 != 0) return;
    auto list = entries();
    std::int64_t total = 0;
    for (const Entry& e : list) total += e.bytes;
    if (total <= bound) return;
    std::ranges::sort(list, {}, &Entry::used);
    for (const Entry& e : list) {
        if (total <= bound / 5 * 4) break;
        std::error_code error;
        fs::remove(e.path, error);
        total -= e.bytes;
    }
}

}  // namespace

std::string hash_of(std::string_view text) {
    return fmt::format("{:016x}{:016x}", mix(text, 0), mix(text, 0x9e3779b97f4a7c15ULL));
}

std::string cache_folder() {
    const auto value = [](const char* name) {
        const char* v = std::getenv(name);
        return v && *v ? std::string(v) : std::string();
    };
    std::string folder = value("CALOR_CACHE");
    if (folder.empty() && !value("XDG_CACHE_HOME").empty()) folder = value("XDG_CACHE_HOME") + "/calor";
    if (folder.empty() && !value("HOME").empty()) folder = value("HOME") + "/.cache/calor";
    std::error_code error;
    if (!folder.empty()) fs::create_directories(folder, error);
    return error ? std::string() : folder;
}

std::string cache_read(const std::string& key, CacheKind kind) {
    if (cache_folder().empty()) return {};
    const fs::path path = file_of(key, kind);
    std::ifstream in(path, std::ios::binary);
    if (!in) return {};
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    // magic, hash of the content, the content
    if (!all.starts_with(magic) || all.size() < magic.size() + 33) return {};
    std::string content = all.substr(magic.size() + 33);
    if (all.substr(magic.size(), 32) != hash_of(content)) return {};
    std::error_code error;
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);
    return content;
}

void cache_write(const std::string& key, const std::string& content, CacheKind kind) {
    if (content.empty() || cache_folder().empty()) return;
    static std::atomic<int> number{0};
    const fs::path path = file_of(key, kind);
    const fs::path part = path.string() + fmt::format(".{}.{}.part", getpid(), number.fetch_add(1));
    std::error_code error;
    {
        std::ofstream out(part, std::ios::binary);
        out << magic << hash_of(content) << '\n' << content;
        out.close();
        if (!out) {
            fs::remove(part, error);
            return;
        }
    }
    fs::rename(part, path, error);
    if (error) fs::remove(part, error);
    keep_bound();
}

CacheState cache_state() {
    CacheState state{cache_folder(), 0, 0, bound, 0};
    for (const Entry& e : entries()) {
        ++state.files;
        state.choices += e.choice ? 1 : 0;
        state.bytes += e.bytes;
    }
    return state;
}

std::int64_t cache_clear() {
    std::int64_t count = 0;
    for (const Entry& e : entries()) {
        std::error_code error;
        count += fs::remove(e.path, error) ? 1 : 0;
    }
    return count;
}

}  // namespace calor::gpu
