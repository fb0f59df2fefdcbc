// The dumps that a flight recorder wrote next to its trace (collector/trace/flight_dumps.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memreel::record {

/// Paths of the dumps of the recording `trace`, by number. Skips files of other recordings with matching names.
std::vector<std::string> dumps_of(const std::filesystem::path& trace);

}  // namespace memreel::record
