// Compiled kernels, and choices between them, on disk: one file each, named by the hash of everything that decided it,
// in $CALOR_CACHE, else $XDG_CACHE_HOME/calor, else ~/.cache/calor. Writers make a temporary file and rename it, so
// processes can share the folder; a file that is not whole is passed over and written anew; when the folder grows past
// its bound the files that were not used longest go. Nothing here throws: without a folder every kernel is compiled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace calor::gpu {

/// Two 64-bit hashes of the text as 32 hexadecimal digits.
std::string hash_of(std::string_view text);

/// The folder; empty when none can be made.
std::string cache_folder();
enum class CacheKind : std::uint8_t { kernel, choice };
/// The content stored under a key; empty when there is none.
std::string cache_read(const std::string& key, CacheKind kind = CacheKind::kernel);
void cache_write(const std::string& key, const std::string& content, CacheKind kind = CacheKind::kernel);

struct CacheState {
    std::string folder;
    std::int64_t files = 0, bytes = 0, bound = 0, choices = 0;  ///< choices: of the files
};
CacheState cache_state();
/// Deletes every cached file; gives how many there were.
std::int64_t cache_clear();

}  // namespace calor::gpu
