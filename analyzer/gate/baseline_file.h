// The file that a run is compared with: JSON that is easy to read and to diff, one metric per line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/gate/measured.h"
#include "formats/model/result.h"

namespace memreel {

std::string baseline_text(const Measured& measured);

/// `where`: the file name used in errors.
Result<Measured> parse_baseline(std::string_view text, const std::string& where);

Result<Measured> read_baseline(const std::filesystem::path& file);

}  // namespace memreel
