// A trace out, event by event, in formats that other tools read.
#pragma once

#include <iosfwd>
#include <span>
#include <string_view>

#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

struct ExportFormat {
  std::string_view name;         // "csv"
  std::string_view description;  // one line
};

/// Every format that export_trace() writes.
std::span<const ExportFormat> export_formats();

/// Writes every event of `trace` to `out` in the format called `format`. Errors: there is no such format, or `out`
/// failed.
Result<void> export_trace(const Trace& trace, std::string_view format, std::ostream& out);

}  // namespace memreel
