// Where a command puts what it makes.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "formats/model/result.h"

namespace memreel::cli {

/// Calls `write` with standard output when `file` is empty. Else with a file beside `file` that is renamed to it once
/// all is written: a failure leaves no half of a file behind.
Result<void> write_output(const std::filesystem::path& file, const std::function<Result<void>(std::ostream&)>& write);

}  // namespace memreel::cli
