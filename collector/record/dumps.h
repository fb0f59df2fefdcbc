// What a flight recorder has written beside its trace (collector/trace/flight_dumps.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memreel::record {

/// Paths of the dumps of the recording that `trace` is, by their numbers. Files of other recordings that have such a
/// name are not among them.
std::vector<std::string> dumps_of(const std::filesystem::path& trace);

}  // namespace memreel::record
