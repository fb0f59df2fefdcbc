// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <array>
#include <ostream>
#include <string>

#include "formats/export/exporters.h"

namespace memreel {
namespace {

struct Exporter {
  ExportFormat format;
  void (*write)(const Trace&, const ExportOptions&, std::ostream&);
};

/// An exporter that has no options.
template <void write(const Trace&, std::ostream&)>
void plain(const Trace& trace, const ExportOptions& /*options*/, std::ostream& out) {
  write(trace, out);
}

constexpr std::array exporters{
    Exporter{{"csv", "comma-separated values, one line per event"}, export_csv},
    Exporter{{"jsonl", "JSON Lines, one object per event"}, export_jsonl},
    Exporter{{"minimalloc", "buffers with lifetimes for offline planners, one line per allocation"},
             plain<export_minimalloc>},
    Exporter{{"perfetto", "memory over time and marks, for https://ui.perfetto.dev", ExportScope::series},
             export_perfetto},
    Exporter{{"pprof", "who holds memory at the peak or --at an instant, for pprof", ExportScope::instant},
             export_pprof},
    Exporter{{"speedscope", "the same as a flame graph, for https://www.speedscope.app", ExportScope::instant},
             export_speedscope},
    Exporter{{"torch", "a PyTorch memory snapshot, for https://pytorch.org/memory_viz", ExportScope::series},
             export_torch_snapshot},
    Exporter{
        {"firefox", "allocations, retained memory and counters, for https://profiler.firefox.com", ExportScope::series},
        export_firefox},
    Exporter{{"dhat", "who allocated, and held at the peak and at the end, for dh_view.html", ExportScope::series},
             export_dhat},
    Exporter{{"heaptrack", "every allocation, for heaptrack_gui", ExportScope::series}, export_heaptrack},
};

constexpr auto formats = [] {
  std::array<ExportFormat, exporters.size()> list{};
  for (std::size_t i = 0; i < exporters.size(); ++i) list[i] = exporters[i].format;
  return list;
}();

}  // namespace

std::span<const ExportFormat> export_formats() { return formats; }

Result<ExportFormat> find_export_format(std::string_view name) {
  for (const ExportFormat& format : formats)
    if (format.name == name) return format;
  std::string known;
  for (const ExportFormat& f : formats) known += (known.empty() ? "" : ", ") + std::string(f.name);
  return Error{.what = "unknown export format '" + std::string(name) + "'", .remedy = "known: " + known};
}

Result<void> export_trace(const Trace& trace, std::string_view format, const ExportOptions& options,
                          std::ostream& out) {
  const Result<ExportFormat> found = find_export_format(format);
  if (!found) return found.error();
  for (const Exporter& exporter : exporters)
    if (exporter.format.name == format) exporter.write(trace, options, out);
  out.flush();
  if (!out) return Error{.what = "the export could not be written", .remedy = "is the disk full?"};
  return {};
}

}  // namespace memreel
