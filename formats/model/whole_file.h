// Files small enough to be read as one string: settings, baselines, lists, entries of /proc.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "formats/model/result.h"

namespace memreel {

/// The maximum to read: far more than any file that memreel reads this way.
inline constexpr std::size_t most_of_a_whole_file = std::size_t{256} << 20U;

/// All bytes of a file, FIFO or /proc entry. std::ifstream is unsuitable here: a failing read (a directory, a process
/// that has just ended) throws from std::istreambuf_iterator. Errors: it can't be opened or read, or exceeds
/// `most_of_a_whole_file`; `remedy` is passed on.
Result<std::string> read_whole_file(const std::filesystem::path& file, std::string remedy = {});

}  // namespace memreel
