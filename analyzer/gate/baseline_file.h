// The file that a run is compared with: JSON that a person can read and a diff shows well, one metric to a line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/gate/measured.h"
#include "formats/model/result.h"

namespace memreel {

std::string baseline_text(const Measured& measured);

/// `where`: the file's name, for errors.
Result<Measured> parse_baseline(std::string_view text, const std::string& where);

Result<Measured> read_baseline(const std::filesystem::path& file);

}  // namespace memreel
