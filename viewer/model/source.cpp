// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/source.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>
#include <vector>

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
constexpr std::chrono::milliseconds first_publication{30}, longest_between_publications{500};
constexpr std::chrono::milliseconds growth_check{200}, import_check{3};
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
  Collected(ByteFile& file, std::uint64_t most) : most_(most) {
    if (most != 0) within([&] { collector_.emplace(file); });
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

class Source::Import {
 public:
  explicit Import(std::function<Result<void>()> work)
      : thread_([this, work = std::move(work)] {
          result_ = work();
          done_.store(true, std::memory_order_release);
        }) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Once done().
  const Result<void>& result() const { return result_; }

 private:
  Result<void> result_;
  std::atomic<bool> done_{false};
  std::jthread thread_;  // last member: it uses the others
};

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
  ImportOptions options{.memory_limit = memory_limit_};
  auto last = Clock::now();
  options.on_progress = [&](ImportProgress p) {
    const auto now = Clock::now();
    if (now - last < import_progress || p.bytes_total == 0) return;
    last = now;
    set_status({.stage = Stage::importing,
                .progress = static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes_total)});
  };
  auto opening = begin_to_open_trace(path_, options, stop);
  if (!opening) return std::move(opening).error();
  std::optional<Import> running;
  if (opening->import) running.emplace([&] { return within_memory(path_, opening->import); });
  return read(stop, opening->file, running ? &*running : nullptr);
}

/// For jobs. `trace`: its contents, if they are known.
std::shared_ptr<WholeTrace> Source::whole_of(std::shared_ptr<ByteFile> file, bool completed,
                                             std::optional<Trace> trace) const {
  if (!trace || whole_ == Whole::perhaps)
    return std::make_shared<WholeTrace>(std::move(file), memory_limit_, completed);
  return std::make_shared<WholeTrace>(std::move(file), memory_limit_, completed, *std::move(trace));
}

/// Completes a recorded trace for judging, and publishes it. False if that changes nothing. `file`: its file.
bool Source::publish_completed(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file, Trace& trace,
                               const SourceStatus& status) {
  if (complete_trace(trace) == 0) return false;
  DocumentBuilder builder;
  builder.set_begun_anew(begun_anew_);
  constexpr std::size_t at_once = std::size_t{1} << 16U;
  for (std::size_t begin = 0; begin < trace.events.count() && !stop.stop_requested(); begin += at_once) {
    give_way();
    builder.add(trace.events, begin, std::min(begin + at_once, trace.events.count()), trace.tables);
  }
  if (stop.stop_requested()) return true;
  auto document = std::make_shared<Document>(*builder.publish(trace, file->size(), true));
  document->renumbered = true;
  document->whole = whole_of(file, true, std::move(trace));
  publish(std::move(document), status);
  return true;
}

// A loop over the states of a growing file.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
Result<void> Source::read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file, Import* import) {
  // The beginning of a trace is written in one piece.
  while (import != nullptr && !import->done() && file->size() == 0 && !stop.stop_requested()) pause(stop, import_check);
  if (import != nullptr && import->done() && !import->result()) return import->result();
  if (stop.stop_requested()) return {};
  auto reader = TraceReader::open(file, path_.string(), memory_limit_);
  if (!reader) return std::move(reader).error();
  DocumentBuilder builder;
  builder.set_begun_anew(begun_anew_);
  const auto set_loadable = [&] { builder.set_whole(whole_of(file, false, {})); };
  if (import == nullptr) set_loadable();
  // One that may grow is loaded once it is still, an imported one once the import has given back its memory.
  const auto count = import == nullptr && whole_ == Whole::soon ? events_by_footer(*file) : std::nullopt;
  Collected collected(*file, count && *count <= longest_in_memory ? longest_in_memory : 0);
  ValueCheck values(path_.string());
  EventBatch batch;
  std::uint64_t events = 0;
  auto interval = first_publication;
  auto last = Clock::now() - interval;
  bool published_end = false, following = false;
  auto patience = patience_with_growth;
  std::vector<std::byte> beginning(256);
  if (const auto count = file->read(0, beginning)) beginning.resize(*count);
  std::uint64_t expected = import == nullptr ? expected_events(*file) : 0;
  while (!stop.stop_requested()) {
    give_way();
    for (const auto since = Clock::now(); held_.load(std::memory_order_relaxed) && !stop.stop_requested();) {
      pause(stop, held_check);
      if (Clock::now() - since > longest_held) hold(false);
    }
    const bool importing = import != nullptr && !import->done();
    const std::uint64_t size = file->size();  // what is added from here on may not be read below
    auto more = reader->next(batch);
    if (!more) return std::move(more).error();
    if (*more) {
      events += batch.events.count();
      constexpr std::uint64_t bytes_per_event = 37;  // as for complete traces
      const Bytes limit = memory_limit_ == 0_B ? trace_memory_limit(file->size()) : memory_limit_;
      if (Bytes{events * bytes_per_event} > limit)
        return over_memory_limit(path_.string(), "holds events that need more than", limit);
      if (auto checked = values.check(batch.events); !checked) return checked;
      builder.add(batch, reader->tables());
      collected.add(batch);
      published_end = false;
      if (const auto now = Clock::now(); now - last >= interval) {
        last = now;
        interval = std::min(2 * interval, longest_between_publications);
        if (!importing && expected == 0) expected = expected_events(*file);
        const double share = importing ? 0.99 : static_cast<double>(events) / static_cast<double>(expected);
        // Additions to a fully read file don't switch its status back to reading.
        if (following) {
          set_loadable();
          publish(builder.publish(*reader, file->size(), true),
                  {.stage = Stage::complete, .progress = 1, .followed = true});
        } else {
          publish(builder.publish(*reader, file->size(), false),
                  {.stage = importing ? Stage::importing : Stage::reading, .progress = std::min(0.99, share)});
        }
      }
      continue;
    }
    if (importing) {
      pause(stop, import_check);
      continue;
    }
    if (import != nullptr && !import->result()) return import->result();
    set_loadable();
    const bool followed = import == nullptr && !reader->report().has_footer;
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
