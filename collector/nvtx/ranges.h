// NVTX marks and ranges, as marks in the trace.
#pragma once

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

/// Installs our functions in one copy of NVTX. False if it is of an unknown version; it then runs without a tool.
bool take_over(GetExportTable get_table);

/// Likewise in one copy of the payload extension, by which a range can end, too. False for other extensions.
bool take_over_payloads(const ExtensionInfo& info);

}  // namespace memreel::nvtx
