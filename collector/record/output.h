// Where traces go.
#pragma once

#include <string>

#include "formats/model/result.h"

namespace memreel::record {

/// The pattern of the traces' names (options/options.h) as an absolute path, so that a program that changes its
/// directory does not take the trace along. Errors: there is no such directory, nothing can be written to it, or the
/// pattern itself names one. Nothing is checked behind a placeholder.
Result<std::string> output_pattern(const std::string& given);

}  // namespace memreel::record
