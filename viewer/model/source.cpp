// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/source.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "analyzer/replay/completed_trace.h"
#include "formats/import/import.h"
#include "formats/model/value_check.h"
#include "formats/reader/trace_stream.h"
#include "viewer/model/document_builder.h"

namespace memreel::viewer {
namespace {

/// The first bytes of a file that may grow.
class Beginning final : public ByteFile {
 public:
  Beginning(std::shared_ptr<ByteFile> file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= size_) return std::size_t{0};
    return file_->read(offset,
                       into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), size_ - offset))));
  }
  std::uint64_t size() override { return std::min(size_, file_->size()); }

 private:
  std::shared_ptr<ByteFile> file_;
  std::uint64_t size_;
};

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t bytes_of_event = 40;  // of a document and of the trace that it shows
constexpr std::chrono::milliseconds first_publication{30}, longest_between_publications{500};
constexpr std::chrono::milliseconds growth_check{200};
constexpr std::chrono::milliseconds longest_held{150}, held_check{1};
constexpr std::chrono::milliseconds import_progress{100};  // each causes a frame, drawn on the CPUs that import

/// None: the file may still grow.
std::optional<std::uint64_t> events_by_footer(ByteFile& file) {
  const auto footer = read_footer(file, file.size());
  if (!footer || !*footer) return std::nullopt;
  return (*footer)->footer.event_count;
}

/// For progress: from the footer, or a guess.
std::uint64_t expected_events(ByteFile& file) {
  return std::max<std::uint64_t>(events_by_footer(file).value_or(file.size() / 4), 1);
}

/// A trace that is put together while it is read, unless it gets too long.
class Collected {
 public:
  /// `most`: events.
  explicit Collected(std::uint64_t most) : most_(most) {
    if (most != 0) collector_.emplace();
  }
  void add(const EventBatch& batch) {
    events_ += batch.events.count();
    if (events_ > most_) collector_.reset();
    if (collector_) within([&] { collector_->add(batch); });
  }
  /// None if there is no such trace.
  std::optional<Trace> finish(const TraceReader& reader, std::uint64_t file_size) {
    if (!collector_) return std::nullopt;
    std::optional<Trace> trace;
    within([&] { trace = std::move(*collector_).finish(reader, {file_size}); });
    collector_.reset();
    return trace;
  }

 private:
  /// The trace can be shown even if there is no memory to judge it.
  template <class Work>
  void within(const Work& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      collector_.reset();
    }
  }

  std::optional<TraceCollector> collector_;
  std::uint64_t most_, events_ = 0;
};

/// Runs `work`, which may run out of memory.
template <class Work>
Result<void> within_memory(const std::filesystem::path& file, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{.what = "not enough memory to show the trace",
                 .where = file.string(),
                 .remedy = "allow more with --max-memory, or use a machine with more"};
  }
}

}  // namespace

Source::Source(std::filesystem::path path, std::function<void()> changed, Bytes memory_limit, Whole whole)
    : path_(std::move(path)),
      changed_(std::move(changed)),
      memory_limit_(memory_limit),
      whole_(whole),
      document_(std::make_shared<const Document>()),
      worker_([this](const std::stop_token& stop) { run(stop); }) {}

Source::~Source() = default;

std::shared_ptr<const Document> Source::document() const {
  const std::lock_guard lock(mutex_);
  return document_;
}

SourceStatus Source::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Source::set_status(const SourceStatus& status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  if (changed_) changed_();
}

void Source::publish(std::shared_ptr<const Document> document, const SourceStatus& status) {
  {
    const std::lock_guard lock(mutex_);
    document_.swap(document);  // the old version is destroyed after the lock is released
    status_ = status;
  }
  if (changed_) changed_();
}

void Source::run(const std::stop_token& stop) {
  const auto read_it = [&] {
    written_anew_ = false;
    return within_memory(path_, [&] { return open_and_read(stop); });
  };
  Result<void> done = read_it();
  while (written_anew_ && !stop.stop_requested()) {
    // A writer that overwrites it may just have truncated it: allow it a moment to become a trace again.
    ++begun_anew_;
    constexpr int most_tries = 25;
    for (int tries = 0; tries == 0 || (!done && tries < most_tries && !stop.stop_requested()); ++tries) {
      pause(stop, growth_check);
      done = read_it();
    }
  }
  if (!done) set_status({.stage = Stage::failed, .error = done.error()});
}

bool Source::is_written_anew(std::span<const std::byte> beginning, std::uint64_t size) const {
  const auto now = open_file(path_);
  if (!now) return false;  // it was deleted; keep what was read
  if ((*now)->size() < size) return true;
  std::vector<std::byte> bytes(beginning.size());
  const auto read = (*now)->read(0, bytes);
  return read && *read == bytes.size() && !std::ranges::equal(bytes, beginning);
}

Result<void> Source::open_and_read(const std::stop_token& stop) {
  const Result<std::shared_ptr<ByteFile>> trace = open_if_trace(path_, {.memory_limit = memory_limit_});
  if (!trace) return trace.error();
  return *trace ? read(stop, *trace) : import(stop);
}

/// For jobs. `trace`: what the file holds, if that is known.
std::shared_ptr<WholeTrace> Source::whole_of(std::shared_ptr<ByteFile> file, bool completed,
                                             std::optional<Trace> trace) const {
  if (whole_ == Whole::perhaps) trace.reset();
  const Bytes limit = memory_limit_ == 0_B ? trace_memory_limit(file->size()) : memory_limit_;
  auto load = [file = std::move(file), given = memory_limit_, completed] {
    Result<Trace> loaded = load_checked(file, "the trace", given);
    if (loaded && completed) complete_trace(*loaded);
    return loaded;
  };
  return std::make_shared<WholeTrace>(std::move(load), limit, std::move(trace));
}

/// The same for a file that is not a trace. `written`: when it was, before it was read.
std::shared_ptr<WholeTrace> Source::whole_import(std::filesystem::file_time_type written, bool completed,
                                                 std::optional<Trace> trace) const {
  if (whole_ == Whole::perhaps) trace.reset();
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(path_, problem);
  const Bytes limit = memory_limit_ == 0_B ? default_memory_limit({size}, 256, 1_GiB) : memory_limit_;
  auto load = [path = path_, given = memory_limit_, completed, written]() -> Result<Trace> {
    std::error_code ignored;
    if (std::filesystem::last_write_time(path, ignored) != written)
      return Error{.what = "was changed since it was opened", .where = path.string(), .remedy = "open it again"};
    Result<Trace> loaded = open_any(path, {.memory_limit = given});
    if (loaded && completed) complete_trace(*loaded);
    return loaded;
  };
  return std::make_shared<WholeTrace>(std::move(load), limit, std::move(trace));
}

/// Shows a trace in memory: the events so far every now and then, and all of them with `status`. `bytes`: of its file.
/// `finish` sets what else the last document has.
void Source::publish_whole(const std::stop_token& stop, const Trace& trace, std::uint64_t bytes, SourceStatus status,
                           const std::function<void(Document&)>& finish) {
  DocumentBuilder builder;
  builder.set_begun_anew(begun_anew_);
  constexpr std::size_t at_once = std::size_t{1} << 16U;
  const std::size_t count = trace.events.count();
  const bool is_first = document()->empty();  // else a shorter document would replace a longer one
  auto last = Clock::now();
  for (std::size_t begin = 0; begin < count; begin += at_once) {
    give_way();
    if (stop.stop_requested()) return;
    builder.add(trace, begin, std::min(begin + at_once, count));
    if (!is_first || Clock::now() - last < longest_between_publications) continue;
    last = Clock::now();
    publish(builder.publish(trace, bytes, false),
            {.stage = Stage::reading, .progress = static_cast<double>(begin) / static_cast<double>(count)});
  }
  auto document = std::make_shared<Document>(*builder.publish(trace, bytes, true));
  finish(*document);
  publish(std::move(document), status);
}

Result<void> Source::import(const std::stop_token& stop) {
  ImportOptions options{.memory_limit = memory_limit_, .on_progress = {}, .stop = stop};
  auto last = Clock::now();
  options.on_progress = [&](ImportProgress p) {
    const auto now = Clock::now();
    if (now - last < import_progress || p.bytes_total == 0) return;
    last = now;
    set_status({.stage = Stage::importing,
                .progress = static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes_total)});
  };
  std::error_code problem;
  const auto written = std::filesystem::last_write_time(path_, problem);
  Result<Trace> trace = open_any(path_, options);
  if (stop.stop_requested()) return {};
  if (!trace) return std::move(trace).error();
  const bool completes = trace->events.count() <= longest_in_memory && may_be_completed(trace->header, trace->tables);
  const bool renumbered = completes && complete_trace(*trace) > 0;
  publish_whole(stop, *trace, 0, {.stage = Stage::complete, .progress = 1}, [&](Document& document) {
    document.renumbered = renumbered;
    document.whole = whole_import(written, completes, *std::move(trace));
  });
  return {};
}

/// Completes a recorded trace for judging, and publishes it. False if that changes nothing. `file`: its file.
bool Source::publish_completed(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file, Trace& trace,
                               const SourceStatus& status) {
  if (complete_trace(trace) == 0) return false;
  publish_whole(stop, trace, file->size(), status, [&](Document& document) {
    document.renumbered = true;
    document.whole = whole_of(file, true, std::move(trace));
  });
  return true;
}

// A loop over the states of a growing file.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
Result<void> Source::read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file) {
  auto reader = TraceReader::open(file, path_.string(), memory_limit_);
  if (!reader) return std::move(reader).error();
  DocumentBuilder builder;
  builder.set_begun_anew(begun_anew_);
  const auto set_loadable = [&] { builder.set_whole(whole_of(file, false, {})); };
  set_loadable();
  // One that may grow is loaded once it is still.
  const auto count = whole_ == Whole::soon ? events_by_footer(*file) : std::nullopt;
  Collected collected(count && *count <= longest_in_memory ? longest_in_memory : 0);
  ValueCheck values(path_.string());
  EventBatch batch;
  std::uint64_t events = 0;
  auto interval = first_publication;
  auto last = Clock::now() - interval;
  bool published_end = false, following = false;
  auto patience = patience_with_growth;
  std::vector<std::byte> beginning(256);
  if (const auto got = file->read(0, beginning)) beginning.resize(*got);
  const std::uint64_t expected = expected_events(*file);
  while (!stop.stop_requested()) {
    give_way();
    for (const auto since = Clock::now(); held_.load(std::memory_order_relaxed) && !stop.stop_requested();) {
      pause(stop, held_check);
      if (Clock::now() - since > longest_held) hold(false);
    }
    const std::uint64_t size = file->size();  // what is added from here on may not be read below
    auto more = reader->next(batch);
    if (!more) return std::move(more).error();
    if (*more) {
      events += batch.events.count();
      const Bytes limit = memory_limit_ == 0_B ? trace_memory_limit(file->size()) : memory_limit_;
      if (Bytes{events * bytes_of_event} > limit)
        return over_memory_limit(path_.string(), "holds events that need more than", limit);
      if (auto checked = values.check(batch.events); !checked) return checked;
      builder.add(batch, reader->tables());
      collected.add(batch);
      published_end = false;
      if (const auto now = Clock::now(); now - last >= interval) {
        last = now;
        interval = std::min(2 * interval, longest_between_publications);
        const double share = static_cast<double>(events) / static_cast<double>(expected);
        // Additions to a fully read file don't switch its status back to reading.
        if (following) {
          set_loadable();
          publish(builder.publish(*reader, file->size(), true),
                  {.stage = Stage::complete, .progress = 1, .followed = true});
        } else {
          publish(builder.publish(*reader, file->size(), false),
                  {.stage = Stage::reading, .progress = std::min(0.99, share)});
        }
      }
      continue;
    }
    set_loadable();
    const bool followed = !reader->report().has_footer;
    // If that fails, the trace is shown as recorded.
    const bool completes = events <= longest_in_memory && may_be_completed(reader->header(), reader->tables());
    const auto complete = [&](std::optional<Trace>& trace, const SourceStatus& status) {
      if (!completes) return false;
      const auto whole_file = followed ? std::make_shared<Beginning>(file, size) : file;
      if (!trace) {
        auto loaded = load_checked(whole_file, path_.string(), memory_limit_);
        if (!loaded) return false;
        trace = *std::move(loaded);
      }
      return publish_completed(stop, whole_file, *trace, status);
    };
    if (!followed) {
      std::optional<Trace> trace = collected.finish(*reader, size);
      if (complete(trace, {.stage = Stage::complete, .progress = 1})) return {};
      builder.set_whole(whole_of(file, completes, std::move(trace)));
    }
    if (!published_end || !followed) {  // the end may come alone, after all events
      publish(builder.publish(*reader, file->size(), true),
              {.stage = Stage::complete, .progress = 1, .followed = followed});
      published_end = true;
    }
    if (!followed) return {};
    following = true;
    // A program that was killed leaves no footer.
    const SourceStatus is_still{.stage = Stage::complete, .progress = 1, .followed = true, .still = true};
    bool waited = false, completed = false;
    for (const auto since = Clock::now(); !stop.stop_requested(); pause(stop, growth_check)) {
      if (file->size() != size || is_written_anew(beginning, size)) break;
      if (waited || Clock::now() - since < patience) continue;
      waited = true;
      std::optional<Trace> trace;
      completed = complete(trace, is_still);
      if (!completed) set_status(is_still);
    }
    written_anew_ = is_written_anew(beginning, size);
    if (written_anew_) return {};
    if (waited) patience *= 4;
    if (!completed || stop.stop_requested()) continue;
    publish(builder.publish(*reader, file->size(), true), {.stage = Stage::complete, .progress = 1, .followed = true});
  }
  return {};
}

}  // namespace memreel::viewer
