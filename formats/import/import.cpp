// SPDX-License-Identifier: Apache-2.0
#include "formats/import/import.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "formats/import/kineto/kineto.h"
#include "formats/import/logs/logs.h"
#include "formats/import/minimalloc.h"
#include "formats/import/nsys/nsys.h"
#include "formats/import/pool/pool_log.h"
#include "formats/import/rmm/rmm_log.h"
#include "formats/import/rocprof/rocprof.h"
#include "formats/import/sqlite/database.h"
#include "formats/import/torch/memory_timeline.h"
#include "formats/import/torch/torch_snapshot.h"
#include "formats/import/xplane/regions.h"
#include "formats/import/xplane/xplane.h"
#include "formats/model/files.h"
#include "formats/model/value_check.h"
#include "formats/writer/trace_in_memory.h"
#include "memreel/version.h"

namespace memreel {
namespace {

/// How to detect and read a format.
struct Importer {
  ImportFormat format;
  bool (*recognises)(std::span<const std::byte> beginning);
  Result<void> (*import)(ByteCursor& bytes, Header header, const BeginOutput& begin);
  std::size_t looks_at = 4096;  // bytes: how far into the file
};

/// JSON whose start shows that it is not a snapshot.
bool is_other_json(std::span<const std::byte> beginning) {
  return pool_log::looks_like_pool_log(beginning) || logs::looks_like_cupy_log(beginning) ||
         kineto::looks_like_profile(beginning) || rocprof::looks_like_json(beginning) ||
         torch::looks_like_timeline(beginning) || torch::looks_like_stats(beginning) ||
         rmm::looks_like_debug_log(beginning);
}

/// Databases begin alike; their tables distinguish them.
Result<void> import_sqlite(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  const Result<sqlite::Database> database = sqlite::Database::open(bytes);
  if (!database) return database.error();
  const auto has = [&](const char* table) { return !database->columns(table).empty(); };
  const bool is_rocpd = rocprof::is_rocpd(*database);
  if (!is_rocpd && has("rocpd_api"))
    return Error{.what = "is a trace of rocmProfileData (runTracer.sh), which records no allocations",
                 .where = bytes.where(),
                 .remedy = "rocprofv3 --memory-allocation-trace -- PROGRAM"};
  if (!is_rocpd && !has("CUDA_GPU_MEMORY_USAGE_EVENTS") && !has("META_DATA_CAPTURE") && !has("StringIds"))
    return Error{.what = "is a database of neither Nsight Systems nor rocprofv3",
                 .where = bytes.where(),
                 .remedy = "nsys export --type sqlite, or rocprofv3 --memory-allocation-trace"};
  const auto import = is_rocpd ? rocprof::import_rocpd : nsys::import_database;
  return import(*database, bytes.memory_limit(), std::move(header), begin);
}

// The first one that recognises a file reads it.
constexpr std::array importers{
    Importer{{"torch.snapshot", "PyTorch memory snapshot: torch.cuda.memory._dump_snapshot(), pickle or JSON"},
             [](std::span<const std::byte> beginning) {  // many formats are JSON
               return torch::looks_like_snapshot(beginning) && !is_other_json(beginning);
             },
             torch::import_snapshot,
             kineto::longest_preamble},
    Importer{{"torch.page", "page of PyTorch's memory_viz (trace_plot -o NAME.html), the snapshot in it"},
             torch::looks_like_viz_page,
             torch::import_viz_page,
             kineto::longest_preamble},
    Importer{{"torch.timeline", "torch.profiler's export_memory_timeline(\"NAME.raw.json.gz\")"},
             torch::looks_like_timeline,
             torch::import_timeline},
    Importer{{"torch.profiler", "Chrome trace of torch.profiler or Kineto, with profile_memory=True"},
             kineto::looks_like_profile,
             kineto::import_profile,
             kineto::longest_preamble},
    Importer{{"rocprof.json", "rocprofv3 --memory-allocation-trace -f json"},
             rocprof::looks_like_json,
             rocprof::import_json},
    Importer{
        {"pool.jsonl", "what a pool did, one JSON object a line: {\"op\": \"alloc\", \"id\": 1, \"size\": 905, ...}"},
        pool_log::looks_like_pool_log,
        pool_log::import_pool_log},
    Importer{{"cupy.jsonl", "JSON lines of CuPy's memory_hooks.DebugPrintHook"},
             logs::looks_like_cupy_log,
             logs::import_cupy_log},
    Importer{{"paddle.log", "log of PaddlePaddle with GLOG_v=10: its auto_growth allocator"},
             logs::looks_like_paddle_log,
             logs::import_paddle_log,
             kineto::longest_preamble},
    Importer{{"rmm.debug", "RAPIDS RMM's own log (RMM_DEBUG_LOG_FILE): failures, at trace level also allocations"},
             rmm::looks_like_debug_log,
             rmm::import_debug_log},
    Importer{{"rmm.log", "RAPIDS RMM log: CSV of logging_resource_adaptor"}, rmm::looks_like_log, rmm::import_log},
    Importer{{"nsys.sqlite", "Nsight Systems with --cuda-memory-usage=true: nsys export --type sqlite"},
             sqlite::looks_like_database,
             import_sqlite},
    Importer{
        {"rocpd", "rocprofv3 --memory-allocation-trace, its database"}, sqlite::looks_like_database, import_sqlite},
    Importer{
        {"rocprof.csv", "rocprofv3 --memory-allocation-trace -f csv"}, rocprof::looks_like_csv, rocprof::import_csv},
    Importer{{"minimalloc.csv", "buffers with lifetimes (CSV with the columns id,lower,upper,size)"},
             looks_like_minimalloc,
             import_minimalloc},
    Importer{{"xplane", "profile of JAX or TensorFlow: jax.profiler.trace(), NAME.xplane.pb"},
             xplane::looks_like_xspace,
             xplane::import_xspace},
    Importer{{"jax.memory", "jax.profiler.save_device_memory_profile(): one instant"},
             xplane::looks_like_device_memory,
             xplane::import_device_memory},
    Importer{{"tf.bfc", "log with a dump of TensorFlow's or JAX's BFC allocator: one instant"},
             logs::looks_like_bfc_dump,
             logs::import_bfc_dump,
             kineto::longest_preamble},
    Importer{{"ort.arena", "verbose log of ONNX Runtime: the regions of its arena"},
             logs::looks_like_ort_arena,
             logs::import_ort_arena,
             kineto::longest_preamble},
    Importer{{"torch.stats", "torch.cuda.memory_summary() or memory_stats(), as text: one instant, sums only"},
             torch::looks_like_stats,
             torch::import_stats,
             kineto::longest_preamble},
};

constexpr auto formats = [] {
  std::array<ImportFormat, importers.size()> result;
  std::transform(importers.begin(), importers.end(), result.begin(),
                 [](const Importer& importer) { return importer.format; });
  return result;
}();

constexpr std::size_t beginning_size = kineto::longest_preamble;  // the most that any importer looks at

bool recognises(const Importer& importer, std::span<const std::byte> beginning) {
  return importer.recognises(beginning.first(std::min(beginning.size(), importer.looks_at)));
}

/// An empty list, dict or tuple, or the mark before their items: a prompt in a log begins with a bracket, too.
bool is_old_pickle(std::span<const std::byte> beginning) {
  const auto at = [&](std::size_t i) { return i < beginning.size() ? std::to_integer<char>(beginning[i]) : '\0'; };
  if (at(0) == '(') return std::string_view("dltq(").find(at(1)) != std::string_view::npos;
  return (at(0) == '}' || at(0) == ']') && std::string_view("qr(.").find(at(1)) != std::string_view::npos;
}

std::string known_formats() {
  std::string names;
  for (const ImportFormat& format : formats) {
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

Result<const Importer*> find_importer(ByteCursor& bytes, const std::string& format) {
  if (!format.empty()) {
    const auto named = std::find_if(importers.begin(), importers.end(),
                                    [&](const Importer& importer) { return importer.format.name == format; });
    if (named != importers.end()) return &*named;
    return Error{.what = "unknown import format '" + format + "'", .remedy = "available: " + known_formats()};
  }
  const std::span<const std::byte> beginning = bytes.peek(beginning_size);
  if (bytes.failure()) return *bytes.failure();
  if (beginning.empty())
    return Error{.what = "the file is empty", .where = bytes.where(), .remedy = "record or dump it again"};
  if (looks_like_trace(beginning))
    return Error{.what = "is already a memreel trace", .where = bytes.where(), .remedy = "open it without importing"};
  const auto found = std::find_if(importers.begin(), importers.end(),
                                  [&](const Importer& importer) { return recognises(importer, beginning); });
  if (found != importers.end()) return &*found;
  if (is_old_pickle(beginning))
    return Error{.what = "looks like a pickle of protocol 0 or 1, which is not supported",
                 .where = bytes.where(),
                 .remedy = "dump again with pickle.dump(snapshot, file, protocol=4)"};
  if (text_of(beginning).starts_with("PK\3\4"))
    return Error{.what = "is a zip archive, such as torch.save() writes, and no recording",
                 .where = bytes.where(),
                 .remedy = "memreel reads what torch.cuda.memory._dump_snapshot writes"};
  return Error{.what = "unrecognized format",
               .where = bytes.where(),
               .remedy = "available, also compressed with xz, gzip or zstd: memreel's own .reel, " + known_formats()};
}

/// Microseconds since the Unix epoch; 0 if unknown.
std::int64_t written_at(const std::filesystem::path& file) {
  std::error_code problem;
  const auto written = std::filesystem::last_write_time(file, problem);
  if (problem) return 0;
  const auto since_epoch = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
}

Result<void> read_rest(ByteStream& bytes, std::vector<std::byte>& into) {
  constexpr std::size_t piece = std::size_t{1} << 20U;
  for (;;) {
    const std::size_t before = into.size();
    into.resize(before + piece);
    const Result<std::size_t> count = bytes.read(std::span(into).subspan(before));
    if (!count) return count.error();
    into.resize(before + *count);
    if (*count < piece) return {};
  }
}

/// A trace in memory that owns its bytes.
class OwnedBytes final : public ByteFile {
 public:
  explicit OwnedBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), file_(memory_file(bytes_)) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    return file_->read(offset, into);
  }
  std::uint64_t size() override { return file_->size(); }

 private:
  std::vector<std::byte> bytes_;
  std::shared_ptr<ByteFile> file_;
};

/// Fails once stopping is requested.
class StoppableStream final : public ByteStream {
 public:
  StoppableStream(std::unique_ptr<ByteStream> bytes, std::stop_token stop)
      : bytes_(std::move(bytes)), stop_(std::move(stop)) {}
  Result<std::size_t> read(std::span<std::byte> into) override {
    if (stop_.stop_requested()) return Error{.what = "stopped"};
    return bytes_->read(into);
  }
  std::uint64_t stored_position() const override { return bytes_->stored_position(); }

 private:
  std::unique_ptr<ByteStream> bytes_;
  std::stop_token stop_;
};

}  // namespace

std::span<const ImportFormat> import_formats() { return formats; }

namespace {

/// Imports `file` into what `begin` begins.
Result<void> import_into(OpenedFile file, const std::string& name, const BeginOutput& begin,
                         const ImportOptions& options) {
  if (options.stop.stop_possible()) file.bytes = std::make_unique<StoppableStream>(std::move(file.bytes), options.stop);
  ByteCursor bytes(std::move(file), options.on_progress);
  const Result<const Importer*> importer = find_importer(bytes, options.format);
  if (!importer) return importer.error();
  Header header{.producer = "memreel " + std::string(version), .source_name = name};
  Result<void> imported = (*importer)->import(bytes, std::move(header), begin);
  if (imported && options.on_progress) options.on_progress({bytes.stored_size(), bytes.stored_size()});
  return imported;
}

/// Opens a file to be imported.
Result<OpenedFile> open_for_import(const std::filesystem::path& file, Bytes memory_limit) {
  Result<OpenedFile> opened = open_bytes(file, memory_limit);
  if (opened && opened->compressed) opened->bytes = read_ahead(std::move(opened->bytes));
  return opened;
}

}  // namespace

Result<void> import_bytes(OpenedFile file, const std::string& name, std::unique_ptr<ByteSink> sink,
                          const ImportOptions& options) {
  std::optional<TraceWriter> writer;
  const auto begin = [&](const Header& header) -> ImportOutput& {
    return writer.emplace(std::move(sink), header, options.writer);
  };
  return import_into(std::move(file), name, begin, options);
}

Result<void> import_file(const std::filesystem::path& file, std::unique_ptr<ByteSink> sink,
                         const ImportOptions& options) {
  Result<OpenedFile> opened = open_for_import(file, options.memory_limit);
  if (!opened) return std::move(opened).error();
  return import_bytes(*std::move(opened), file.filename().string(), std::move(sink), options);
}

Result<void> import_series(std::span<const std::filesystem::path> files, std::unique_ptr<ByteSink> sink,
                           const ImportOptions& options) {
  std::vector<torch::Instant> instants;
  for (const std::filesystem::path& file : files) {
    Result<OpenedFile> opened = open_bytes(file, options.memory_limit);
    if (!opened) return std::move(opened).error();
    instants.push_back({.file = *std::move(opened), .name = file.filename().string(), .time_us = written_at(file)});
  }
  const auto not_later = std::ranges::adjacent_find(instants, std::greater_equal{}, &torch::Instant::time_us);
  if (not_later != instants.end())
    for (std::size_t i = 0; i < instants.size(); ++i)
      instants[i].time_us = instants.front().time_us + static_cast<std::int64_t>(i) * 1'000'000;
  Header header{.producer = "memreel " + std::string(version), .source_name = files.front().filename().string()};
  std::optional<TraceWriter> writer;
  return torch::import_series(std::move(instants), std::move(header), [&](const Header& of_all) -> ImportOutput& {
    return writer.emplace(std::move(sink), of_all, options.writer);
  });
}

Result<std::shared_ptr<ByteFile>> open_if_trace(const std::filesystem::path& file, const ImportOptions& options) {
  Result<OpenedFile> opened = open_bytes(file, options.memory_limit);
  if (!opened) return std::move(opened).error();
  std::vector<std::byte> beginning(beginning_size);
  const Result<std::size_t> count = opened->bytes->read(beginning);
  if (!count) return count.error();
  beginning.resize(*count);
  if (!looks_like_trace(beginning)) return std::shared_ptr<ByteFile>{};
  if (!opened->compressed) return open_file(file);
  if (auto rest = read_rest(*opened->bytes, beginning); !rest) return rest.error();
  return std::shared_ptr<ByteFile>(std::make_shared<OwnedBytes>(std::move(beginning)));
}

Result<std::shared_ptr<ByteFile>> open_trace(const std::filesystem::path& file, const ImportOptions& options) {
  Result<std::shared_ptr<ByteFile>> opened = open_if_trace(file, options);
  if (!opened || *opened) return opened;
  std::vector<std::byte> bytes;
  if (auto imported = import_file(file, memory_sink(bytes), options); !imported) return std::move(imported).error();
  return std::shared_ptr<ByteFile>(std::make_shared<OwnedBytes>(std::move(bytes)));
}

bool is_recognised(const std::filesystem::path& file) {
  Result<OpenedFile> opened = open_bytes(file);
  if (!opened) return false;
  std::vector<std::byte> beginning(beginning_size);
  const Result<std::size_t> count = opened->bytes->read(beginning);
  if (!count || *count == 0) return false;
  beginning.resize(*count);
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  // JSON may be anything: a snapshot has its keys near the start.
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '['))
    return text.find("\"segments\"") != std::string_view::npos ||
           text.find("\"device_traces\"") != std::string_view::npos ||
           text.find("\"total_size\"") != std::string_view::npos || is_other_json(beginning);
  return looks_like_trace(beginning) ||
         std::ranges::any_of(importers, [&](const Importer& importer) { return recognises(importer, beginning); });
}

namespace {

/// Imports a file without making a trace's file of it.
Result<Trace> import_into_memory(const std::filesystem::path& file, const ImportOptions& options) {
  Result<OpenedFile> opened = open_for_import(file, options.memory_limit);
  if (!opened) return std::move(opened).error();
  const Bytes limit =
      options.memory_limit == 0_B ? default_memory_limit({opened->stored_size}, 256, 1_GiB) : options.memory_limit;
  std::optional<TraceInMemory> output;
  const auto begin = [&](const Header& header) -> ImportOutput& {
    return output.emplace(header, file.string(), limit);
  };
  Result<void> imported = import_into(*std::move(opened), file.filename().string(), begin, options);
  if (!imported) return std::move(imported).error();
  return std::move(*output).take();
}

}  // namespace

Result<Trace> open_any(const std::filesystem::path& file, const ImportOptions& options) {
  Result<std::shared_ptr<ByteFile>> opened = open_if_trace(file, options);
  if (!opened) return std::move(opened).error();
  if (*opened) return load_checked(*std::move(opened), file.string(), options.memory_limit);
  Result<Trace> trace = import_into_memory(file, options);
  if (!trace) return trace;
  if (auto checked = ValueCheck(file.string()).check(trace->events); !checked) return std::move(checked).error();
  return trace;
}

namespace {

namespace fs = std::filesystem;

/// Appends the events of one trace to another, and what they refer to.
class Copier {
 public:
  Copier(const Trace& trace, TraceOutput& writer)
      : trace_(trace), writer_(writer), frames_(trace.tables.frames.size()), stacks_(trace.tables.stacks.size()) {
    heaps_.push_back(HeapId::none);
    for (std::size_t h = 1; h < trace.tables.heaps.size(); ++h) heaps_.push_back(heap(trace.tables.heaps[h]));
    for (std::size_t s = 1; s < stacks_.size(); ++s) stacks_[s] = stack(trace.tables.stacks[s]);
    for (const Origin& each : trace.tables.origins) origins_.push_back(origin(each));
  }

  HeapId heap(HeapId id) const { return heaps_[index(id)]; }
  OriginId origin(OriginId id) const { return origins_[index(id)]; }

  void append(std::size_t i) {
    Event event = trace_.events[i];
    const AllocationId allocation = event.allocation;
    event.origin = origins_[index(event.origin)];
    event.stack = stacks_[index(event.stack)];
    if (event.kind == EventKind::mark && event.value < trace_.tables.marks.size()) {
      const Mark& mark = trace_.tables.marks[event.value];
      event.value = index(writer_.intern(Mark{.name = string(mark.name), .phase = mark.phase}));
    } else if (event.kind == EventKind::settings && event.value < trace_.tables.settings.size()) {
      Settings settings;
      for (const auto& [key, value] : trace_.tables.settings[event.value].entries)
        settings.entries.emplace_back(string(key), string(value));
      event.value = index(writer_.intern(settings));
    } else if (event.kind == EventKind::sync && event.value >= sync_edge &&
               event.value - sync_edge < trace_.tables.streams.size()) {
      event.value = sync_edge + index(writer_.intern(trace_.tables.streams[event.value - sync_edge]));
    }
    if (event.kind == EventKind::alloc) {
      event.allocation = AllocationId::none;
      const AllocationId copy = writer_.append(event);
      if (copies_.size() <= index(allocation)) copies_.resize(index(allocation) + 1, AllocationId::none);
      copies_[index(allocation)] = copy;
      return;
    }
    if (allocation != AllocationId::none)
      event.allocation = index(allocation) < copies_.size() ? copies_[index(allocation)] : AllocationId::none;
    writer_.append(event);
  }

 private:
  StringId string(StringId id) { return writer_.intern(trace_.tables[id]); }

  HeapId heap(Heap copy) {
    copy.name = string(copy.name);
    copy.parent = index(copy.parent) < heaps_.size() ? heaps_[index(copy.parent)] : HeapId::none;
    return writer_.intern(copy);
  }

  FrameId frame(FrameId id) {
    FrameId& known = frames_[index(id)];
    if (known != FrameId::none || id == FrameId::none) return known;
    Frame copy = trace_.tables[id];
    Module module = trace_.tables[copy.module];
    module.path = string(module.path);
    if (copy.module != ModuleId::none) copy.module = writer_.intern(module);
    copy.function = string(copy.function);
    copy.file = string(copy.file);
    copy.instance = string(copy.instance);
    return known = writer_.intern(copy);
  }

  /// Callers come first in the table.
  StackId stack(const Stack& of) {
    const StackId caller = index(of.caller) < stacks_.size() ? stacks_[index(of.caller)] : StackId::none;
    return writer_.intern(Stack{.frame = frame(of.frame), .caller = caller});
  }

  OriginId origin(Origin copy) {
    const Tables& tables = trace_.tables;
    Pool pool = tables[copy.pool];
    pool.name = string(pool.name);
    Thread thread = tables[copy.thread];
    thread.name = string(thread.name);
    copy.heap = heaps_[index(copy.heap)];
    if (copy.pool != PoolId::default_pool) copy.pool = writer_.intern(pool);
    if (copy.stream != StreamId::default_stream) copy.stream = writer_.intern(tables[copy.stream]);
    if (copy.thread != ThreadId::unknown) copy.thread = writer_.intern(thread);
    if (copy.metadata != StringId::none) copy.metadata = string(copy.metadata);
    return writer_.intern(copy);
  }

  const Trace& trace_;
  TraceOutput& writer_;
  std::vector<FrameId> frames_;
  std::vector<StackId> stacks_;
  std::vector<HeapId> heaps_;
  std::vector<OriginId> origins_;
  std::vector<AllocationId> copies_;
};

bool has_heap_on_device(const Tables& tables, Level level) {
  return std::ranges::any_of(std::span(tables.heaps).subspan(1),
                             [&](const Heap& heap) { return heap.level == level && heap.device >= 0; });
}

Losses sum_of(const Losses& recording, const Losses& profile) {
  Losses sum = recording;
  sum.ring_full += profile.ring_full;
  sum.hook_refused += profile.hook_refused;
  sum.unknown_actions += profile.unknown_actions;
  sum.unmatched_frees += profile.unmatched_frees;
  sum.preexisting_allocations += profile.preexisting_allocations;
  sum.began_late |= profile.began_late;
  sum.unsized_failures += profile.unsized_failures;
  return sum;
}

Result<void> can_be_joined(const Trace& recording, const Trace& profile) {
  const auto refuse = [](std::string what, std::string remedy) {
    return Error{.what = std::move(what), .where = "--profile", .remedy = std::move(remedy)};
  };
  if (!has_heap_on_device(recording.tables, Level::driver))
    return refuse("the recording holds no calls of the driver", "name the trace of memreel record");
  if (recording.losses.folded_events > 0)
    return refuse("a flight recorder's trace is not joined with a profile", "record without --flight");
  if (!has_heap_on_device(profile.tables, Level::framework))
    return refuse("the profile holds no memory of a device",
                  "profile a program that runs on a GPU; with allocators of cudaMallocAsync the recording itself has "
                  "each tensor");
  const auto when = recording.events.times();
  const auto then = profile.events.times();
  if (then.front() > when.back() || then.back() < when.front())
    return refuse("the profile is of another time than the recording", "name one that this run of the program made");
  return {};
}

}  // namespace

Result<fs::path> profile_in(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return path;
  fs::path newest;
  fs::file_time_type at;
  for (fs::recursive_directory_iterator file(path, fs::directory_options::skip_permission_denied, problem), end;
       !problem && file != end; file.increment(problem)) {
    const std::string name = file->path().filename().string();
    if (!name.ends_with(".xplane.pb") && !name.ends_with(".xplane.pb.gz")) continue;
    std::error_code ignored;
    const fs::file_time_type time = file->last_write_time(ignored);
    if (!newest.empty() && time <= at) continue;
    newest = file->path();
    at = time;
  }
  if (newest.empty())
    return Error{.what = "holds no *.xplane.pb",
                 .where = path.string(),
                 .remedy = "name the directory that jax.profiler.trace() was given"};
  return newest;
}

Result<void> join(const Trace& recording, const Trace& profile, std::unique_ptr<ByteSink> sink,
                  const WriterOptions& options) {
  if (Result<void> sound = can_be_joined(recording, profile); !sound) return sound;
  TraceWriter writer(std::move(sink), recording.header, options);
  Copier calls(recording, writer), tensors(profile, writer);
  for (InitialHeap initial : recording.initial_heaps) {
    initial.heap = calls.heap(initial.heap);
    for (auto& segment : initial.segments) segment.origin = calls.origin(segment.origin);
    writer.add_initial_heap(std::move(initial));
  }
  std::size_t next = 0;
  const auto append_until = [&](Nanoseconds time) {
    for (; next < profile.events.count() && profile.events.time(next) < time; ++next) {
      const Tables& tables = profile.tables;
      const bool is_on_device = tables[tables[profile.events.origin(next)].heap].device >= 0;
      if (!is_segment(profile.events.kind(next)) || !is_on_device) tensors.append(next);
    }
  };
  for (std::size_t i = 0; i < recording.events.count(); ++i) {
    append_until(recording.events.time(i));
    calls.append(i);
  }
  append_until(Nanoseconds::max());
  writer.set_losses(sum_of(recording.losses, profile.losses));
  writer.set_python_holders(recording.python_holders);
  return writer.finish();
}

}  // namespace memreel
