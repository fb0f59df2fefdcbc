#include "formats/export/export.h"

#include <array>
#include <ostream>
#include <string>

#include "formats/export/csv.h"
#include "formats/export/jsonl.h"
#include "formats/export/minimalloc.h"

namespace memreel {
namespace {

struct Exporter {
  ExportFormat format;
  void (*write)(const Trace&, std::ostream&);
};

constexpr std::array exporters{
    Exporter{{"csv", "comma-separated values, one line per event"}, export_csv},
    Exporter{{"jsonl", "JSON Lines, one object per event"}, export_jsonl},
    Exporter{{"minimalloc", "buffers with lifetimes for offline planners, one line per allocation"}, export_minimalloc},
};

constexpr auto formats = [] {
  std::array<ExportFormat, exporters.size()> list{};
  for (std::size_t i = 0; i < exporters.size(); ++i) list[i] = exporters[i].format;
  return list;
}();

}  // namespace

std::span<const ExportFormat> export_formats() { return formats; }

Result<void> export_trace(const Trace& trace, std::string_view format, std::ostream& out) {
  for (const Exporter& exporter : exporters) {
    if (exporter.format.name != format) continue;
    exporter.write(trace, out);
    out.flush();
    if (!out) return Error{.what = "the export could not be written", .remedy = "is the disk full?"};
    return {};
  }
  std::string known;
  for (const ExportFormat& f : formats) known += (known.empty() ? "" : ", ") + std::string(f.name);
  return Error{.what = "there is no export format '" + std::string(format) + "'", .remedy = "known: " + known};
}

}  // namespace memreel
