// SPDX-License-Identifier: Apache-2.0
// Exports a trace in formats that other tools read.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string_view>

#include "formats/export/exporters.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// Which part of a trace a format shows.
enum class ExportScope : std::uint8_t {
  events,   // every event, as it was recorded
  series,   // memory over time; the levels of the trace are tied (analyzer/history/levels.h)
  instant,  // memory at ExportOptions::events; likewise
};

struct ExportFormat {
  std::string_view name;         // "csv"
  std::string_view description;  // one line
  ExportScope scope = ExportScope::events;
};

/// Every format that export_trace() writes.
std::span<const ExportFormat> export_formats();

/// The format called `name`. Errors: no such format.
Result<ExportFormat> find_export_format(std::string_view name);

/// Writes `trace` to `out` in the format called `format`. Errors: no such format, or `out` failed.
Result<void> export_trace(const Trace& trace, std::string_view format, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
