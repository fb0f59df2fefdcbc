// Result files that several processes may write at the same time.
#pragma once

#include <filesystem>
#include <string>

#include "formats/model/result.h"

namespace memreel {

/// Writes under a name that nobody can foresee, then renames: readers never see a partial file.
Result<void> write_whole(const std::filesystem::path& file, const std::string& bytes);

/// NAME-0123456789abcdef.EXTENSION in `out`: recordings of equal name in different directories are distinct.
std::filesystem::path result_path(const std::filesystem::path& out, const std::filesystem::path& recording,
                                  const std::string& extension);

}  // namespace memreel
