// SPDX-License-Identifier: Apache-2.0
// Parsing of arguments shared by several commands.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace CLI {
class App;
}

namespace memreel::cli {

/// "10GiB", "500MB", plain bytes. Errors name `option`.
Result<Bytes> parse_size(std::string_view text, const char* option);

/// Parses the device memory given by --capacity. Rejects implausibly small values: a number without its unit.
Result<Bytes> parse_device_size(std::string_view text);

/// The device described by --capacity: a size, or "unlimited". None if the option was not given.
Result<std::optional<DeviceModel>> parse_capacity(std::string_view text);

/// Parses a repeatable option whose values are comma-separated lists.
Result<std::vector<PolicySpec>> parse_policy_lists(std::span<const std::string> texts);

/// After so long a command's replays end, unless --seconds says otherwise: policies differ in what costs them most, and
/// some inputs are the worst case of one.
inline constexpr double most_replay_seconds = 60;

/// Adds --seconds, of a command that runs replays.
void add_seconds_option(CLI::App& command, double& seconds);

std::chrono::steady_clock::time_point deadline_after(double seconds);

}  // namespace memreel::cli
