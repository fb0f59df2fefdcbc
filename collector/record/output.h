// Where traces go.
#pragma once

#include <string>

#include "formats/model/result.h"

namespace memreel::record {

/// The pattern of trace names (options/options.h) as an absolute path, so that traces stay in place when a program
/// changes its directory. Errors: the directory does not exist or is not writable, or the pattern itself names a
/// directory. Nothing after a placeholder is checked.
Result<std::string> output_pattern(const std::string& given);

}  // namespace memreel::record
