// Files with the costs of driver calls: {"schema":"memreel.unit-costs/1",...}
#pragma once

#include <filesystem>

#include "analyzer/cli/json.h"
#include "analyzer/replay/unit_costs.h"
#include "formats/model/result.h"

namespace memreel::cli {

/// Errors: the file can't be read or has another format. Kinds of calls it omits cost nothing.
Result<UnitCosts> read_unit_costs(const std::filesystem::path& file);

Result<void> write_unit_costs(const UnitCosts& costs, const std::filesystem::path& file);

}  // namespace memreel::cli
