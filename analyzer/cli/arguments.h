// What the arguments that several commands share mean.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::cli {

/// "10GiB", "500MB", plain bytes. Errors name `option`.
Result<Bytes> parse_size(std::string_view text, const char* option);

/// The memory of a device, from --capacity. Refuses what no device has so little of: a number without its unit.
Result<Bytes> parse_device_size(std::string_view text);

/// The device that --capacity asks for: a size, or "unlimited". None when it was not given.
Result<std::optional<DeviceModel>> parse_capacity(std::string_view text);

/// Those of an option that can be repeated, each time with a comma list.
Result<std::vector<PolicySpec>> parse_policy_lists(std::span<const std::string> texts);

}  // namespace memreel::cli
