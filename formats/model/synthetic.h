// Traces that were computed rather than recorded.
#pragma once

#include <string_view>

#include "formats/model/trace.h"

namespace memreel {

/// Header::source of a trace written by `memreel predict`. Its source_name says of what, and at which values.
inline constexpr std::string_view synthetic_source = "memreel.predict";

inline bool is_synthetic(const Header& header) { return header.source == synthetic_source; }

}  // namespace memreel
