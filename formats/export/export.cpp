// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <array>
#include <ostream>

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

namespace {

constexpr int window_bits = 15 + 16;  // the largest window, and gzip's header instead of zlib's
constexpr int memory_level = 8;       // zlib's default
constexpr std::size_t buffer_size = 64UL << 10U;

}  // namespace

GzipStream::GzipStream(std::ostream& out) : out_(out), buffer_(buffer_size, '\0') {
  // Fails if there is no memory for it; nothing else in the export would work then.
  if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
    out_.setstate(std::ios::badbit);
}

GzipStream::~GzipStream() { deflateEnd(&stream_); }

void GzipStream::write(std::string_view bytes) {
  // zlib's input is not const for historical reasons; it is not written to.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
  stream_.avail_in = static_cast<uInt>(bytes.size());
  deflate_all(Z_NO_FLUSH);
}

void GzipStream::finish() { deflate_all(Z_FINISH); }

void GzipStream::deflate_all(int flush) {
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());  // NOLINT(*-reinterpret-cast)
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    if (!out_ || deflate(&stream_, flush) == Z_STREAM_ERROR) return;
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size() - stream_.avail_out));
  } while (stream_.avail_out == 0);
}

}  // namespace memreel
