// NVTX's marks and ranges, as marks of the trace.
#pragma once

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

/// Has the functions of a copy of NVTX replaced. False when it is none that is understood; it goes on without a tool.
bool take_over(GetExportTable get_table);

}  // namespace memreel::nvtx
