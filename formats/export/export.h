// SPDX-License-Identifier: Apache-2.0
// Exports a trace in formats that other tools read.
#pragma once

#include <zlib.h>

#include <iosfwd>
#include <span>
#include <variant>

#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

// The formats that other tools read, one function each, and what an export needs besides the trace.

// What an export needs besides the trace.

/// The purpose of each allocation, by AllocationId. Empty: unknown, and not written. Does not own the strings.
struct AllocationNotes {
  std::span<const std::string_view> category;  // "activation"
  std::span<const std::string_view> layer;     // the call that made the allocation
  std::span<const std::string_view> phase;     // "forward"
};

struct ExportOptions {
  /// Formats that show an instant show the state after this many events of the trace; by default, each heap when its
  /// live bytes first peaked.
  std::optional<std::uint64_t> events;

  /// By AllocationId: the bytes that each allocation takes in its segment, rounding included. Empty: unknown, and not
  /// written.
  std::span<const Bytes> block_sizes;

  AllocationNotes notes;
};

// Comma-separated values (RFC 4180), one line per event, the column names first.

/// Columns: event, time_ns, kind, device, heap, level, pool, stream, thread, address, size, allocation, value, mark,
/// stack, category, layer, phase. `stack` joins its frames with ';', innermost first; the last three come from
/// options.notes and are set for `alloc` events. Fields that an event does not have are empty.
void export_csv(const Trace& trace, const ExportOptions& options, std::ostream& out);

// JSON Lines: one object per event.

/// Keys: event, time_ns, kind, device, heap, level, stream; if the event has them, pool, thread, address, size,
/// allocation, value, mark, phase, stack (a list of {function, file, line}, innermost first); on `alloc` events also
/// category, layer, phase, if options.notes has them.
void export_jsonl(const Trace& trace, const ExportOptions& options, std::ostream& out);

// Buffers with lifetimes, the input of static memory planners: the CSV of google/minimalloc, which other planners also
// read.

/// Columns id, lower, upper, size; a line for each allocation, in order of allocation. `id` is its number in the trace,
/// `size` the requested bytes. Time is the index of the event in the trace: a buffer lives from its allocation up to,
/// but not including, its free_completed; one that was never freed, to the end.
///
/// The format describes a single memory, while a trace may have several heaps. Each heap's times start after the
/// previous heap's, so no two overlap: a plan for all of them is a plan for each.
void export_minimalloc(const Trace& trace, std::ostream& out);

// speedscope's JSON, for flame graphs of live memory.

/// A sampled profile for each heap with live memory: the stacks that hold it, weighted by live requested bytes, in
/// stack order. Format: file-format-schema.json of jlfwong/speedscope.
void export_speedscope(const Trace& trace, const ExportOptions& options, std::ostream& out);

// pprof's profile.proto, compressed with gzip, for `pprof` and other readers.

/// Sample types, named as in Go's heap profiles: alloc_objects, alloc_space (everything allocated up to the instant),
/// inuse_objects, inuse_space (live at the instant; shown by default). Bytes are requested bytes. Labels: device
/// ("cuda:0", "host"), heap, stream and pool ("default", or as in stack_text.h), thread.
/// Format: proto/profile.proto of google/pprof.
void export_pprof(const Trace& trace, const ExportOptions& options, std::ostream& out);

// DHAT's JSON, for Valgrind's dh_view.html and the Firefox Profiler.

/// A program point for each stack and heap, with requested bytes: the total allocated, its own maximum, live at the
/// time when all devices' memory peaked, and live at the end. Times are microseconds since the trace began. The levels
/// of the trace are tied; heaps are those of stack_weights.h, each the outermost frame of its stacks. Format: version
/// 2, as in Valgrind's dhat/dh_main.c.
void export_dhat(const Trace& trace, const ExportOptions& options, std::ostream& out);

// A heaptrack recording, for heaptrack_gui and heaptrack_print.

/// Every allocation and free of the heaps of stack_weights.h, with requested bytes, times in milliseconds, and reserved
/// memory as resident memory; a heap is the outermost frame of its stacks. The levels of the trace are tied.
/// Text of format version 3 (src/analyze/accumulatedtracedata.cpp of KDE/heaptrack), compressed with gzip. heaptrack
/// shows no frames outside a function called main.
void export_heaptrack(const Trace& trace, const ExportOptions& options, std::ostream& out);

// A profile for the Firefox Profiler, https://profiler.firefox.com.

/// A thread for each heap, with its allocations and frees (requested bytes) and their stacks: call trees of what was
/// allocated, and of what was retained in the selected range. Counters: live and reserved bytes of each heap. Marks,
/// and failed requests with their sizes, are markers in the first thread. Times are the trace's; if it has none, an
/// event takes a microsecond. The levels of the trace are tied.
///
/// Format: processed profile, version 66 (src/types/profile.ts of firefox-devtools/profiler), which newer versions
/// upgrade.
void export_firefox(const Trace& trace, const ExportOptions& options, std::ostream& out);

// A Perfetto trace: memory over time next to whatever else was traced, at https://ui.perfetto.dev.

/// Counters for every heap: live (requested), allocated (with rounding, if options.block_sizes is set) and reserved
/// bytes; live bytes of each pool, if a heap has pools besides the default one; and the bytes in use that the driver
/// reported. On the threads' tracks: ranges and marks, emptied caches, and failed requests with the requested and free
/// bytes and the stack. Written event by event.
///
/// Times are the trace's; if it has none, an event takes a microsecond. Unchanged counter values are not repeated.
/// Format: protos/perfetto/trace of google/perfetto (TracePacket, TrackDescriptor, TrackEvent).
void export_perfetto(const Trace& trace, const ExportOptions& options, std::ostream& out);

// Tables in Apache Parquet, which pandas, Polars, DuckDB, Spark and spreadsheets read. Format:
// https://parquet.apache.org/docs/file-format/; metadata use Thrift's compact protocol.

/// A table column; an empty optional is a null.
struct ParquetColumn {
  using Integers = std::vector<std::optional<std::int64_t>>;
  using Reals = std::vector<std::optional<double>>;
  using Texts = std::vector<std::optional<std::string>>;

  std::string name;
  std::variant<Integers, Reals, Texts> values;
};

/// A whole file: one row group, one page per column, plain values compressed with zstd. All columns have the same
/// number of values, and each column is less than 2 GiB in total.
std::string parquet_file(std::span<const ParquetColumn> columns);

// A PyTorch memory snapshot: the pickle of torch.cuda.memory._dump_snapshot(), for https://pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py.

/// `device_traces`: the history of each device, by ordinal; `segments`: the state at the end, each segment completely
/// tiled by its blocks. Block sizes come from options.block_sizes, else they are the requested sizes. `host_traces` and
/// `host_segments`, if there is a heap torch.host, describe pinned host memory: what PyTorch's allocator holds and what
/// the program itself page-locked, each block in its own segment, including those cut from a reserve segment.
/// `pytorch_release`, which PyTorch's own snapshots lack, names the release whose rules apply, "" if the trace does not
/// say. An import relies on it rather than on which entries exist: entries state their pools whenever the trace does.
/// What a heap held before a late start is in `segments` only, if the trace knows all of it (Trace::initial_heaps): an
/// import finds it there again.
///
/// The levels of the trace are tied (analyzer/analysis/history/levels.h). Left out: a pool inside another pool, whose
/// memory is part of the other's; other host memory; and devices with an ordinal of 1,000 or more. In a heap without
/// segment events, and at the driver level, each allocation is its own segment. Marks become "user_defined" entries, as
/// torch.profiler's ranges do. What snapshots can't express is left out: emptied caches, waits, device samples, and a
/// heap's settings except the first.
void export_torch_snapshot(const Trace& trace, const ExportOptions& options, std::ostream& out);

/// Which part of a trace a format shows.
enum class ExportScope : std::uint8_t {
  events,   // every event, as it was recorded
  series,   // memory over time; the levels of the trace are tied (analyzer/analysis/history/levels.h)
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

// Streaming gzip compression.

/// Writes one gzip member to `out`. Memory: a 64 KiB buffer, plus zlib's own.
class GzipStream {
 public:
  explicit GzipStream(std::ostream& out);
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream();  // does not finish

  void write(std::string_view bytes);
  void finish();  // nothing may be written afterwards

 private:
  void deflate_all(int flush);

  std::ostream& out_;
  std::string buffer_;
  z_stream stream_{};
};

}  // namespace memreel
