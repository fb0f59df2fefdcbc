// Files that commands write.
#pragma once

#include <filesystem>
#include <string_view>

#include "formats/model/result.h"

namespace memreel::cli {

/// Writes a file that has its name only when it is complete.
Result<void> write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace memreel::cli
