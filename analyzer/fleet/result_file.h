// Result files that several processes may make at the same time.
#pragma once

#include <filesystem>
#include <string>

#include "formats/model/result.h"

namespace memreel {

/// Under a name of this process's own, then renamed: nobody ever sees half of it.
Result<void> write_whole(const std::filesystem::path& file, const std::string& bytes);

/// NAME-0123456789abcdef.EXTENSION in `out`: two recordings of one name in different directories are different.
std::filesystem::path result_path(const std::filesystem::path& out, const std::filesystem::path& recording,
                                  const std::string& extension);

}  // namespace memreel
