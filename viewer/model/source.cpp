// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/source.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "analyzer/replay/completed_trace.h"
#include "formats/import/import.h"
#include "formats/model/value_check.h"
#include "formats/reader/trace_reader.h"
#include "formats/reader/trace_stream.h"
#include "viewer/model/document_builder.h"

namespace memreel::viewer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t bytes_of_event = 24;  // of a document; 20 with three of an allocation
constexpr std::chrono::milliseconds first_publication{30}, longest_between_publications{500};
constexpr std::chrono::milliseconds growth_check{200};
constexpr std::chrono::milliseconds longest_held{150}, held_check{1};
constexpr std::chrono::milliseconds import_progress{100};  // each causes a frame, drawn on the CPUs that import

/// For progress: from the footer, or a guess while the file may still grow.
std::uint64_t expected_events(ByteFile& file) {
  const auto footer = read_footer(file, file.size());
  const bool is_known = footer && *footer;
  return std::max<std::uint64_t>(is_known ? (*footer)->footer.event_count : file.size() / 4, 1);
}

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

/// Whether it is shown completed, as for judging.
bool is_completed(const Trace& trace) {
  return trace.events.count() <= longest_in_memory &&
         may_be_completed(trace.header, trace.tables, may_lack_frees(trace.losses, trace.read));
}

}  // namespace

Source::Source(std::filesystem::path path, std::function<void()> changed, Bytes memory_limit)
    : path_(std::move(path)),
      changed_(std::move(changed)),
      memory_limit_(memory_limit),
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

void Source::publish(std::shared_ptr<Document> document, const SourceStatus& status) {
  document->begun_anew = begun_anew_;
  if (document->complete) document->whole = std::make_shared<WholeTrace>(document->trace, limit_of(*document->trace));
  std::shared_ptr<const Document> before;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(document_, std::move(document));
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

/// For what jobs make of it.
Bytes Source::limit_of(const Trace& trace) const {
  if (memory_limit_ != 0_B) return memory_limit_;
  if (trace.file_size != 0_B) return trace_memory_limit(trace.file_size.count);
  std::error_code problem;
  return default_memory_limit({std::filesystem::file_size(path_, problem)}, 256, 1_GiB);
}

/// Shows a trace in memory: the events so far every now and then, and all of them with `status`.
void Source::index_and_publish(const std::stop_token& stop, std::shared_ptr<const Trace> trace, bool renumbered,
                               const SourceStatus& status) {
  DocumentBuilder builder;
  constexpr std::size_t at_once = std::size_t{1} << 16U;
  const std::size_t count = trace->events.count();
  const bool is_first = document()->empty();  // else a shorter document would replace a longer one
  auto last = Clock::now();
  for (std::size_t begin = 0; begin < count; begin += at_once) {
    give_way();
    if (stop.stop_requested()) return;
    builder.add(*trace, std::min(begin + at_once, count));
    if (!is_first || Clock::now() - last < longest_between_publications) continue;
    last = Clock::now();
    publish(builder.publish(trace, false),
            {.stage = Stage::reading, .progress = static_cast<double>(begin) / static_cast<double>(count)});
  }
  auto document = builder.publish(std::move(trace), true);
  document->renumbered = renumbered;
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
  Result<Trace> trace = open_any(path_, options);
  if (stop.stop_requested()) return {};
  if (!trace) return std::move(trace).error();
  const bool renumbered = is_completed(*trace) && complete_trace(*trace) > 0;
  index_and_publish(stop, std::make_shared<const Trace>(*std::move(trace)), renumbered,
                    {.stage = Stage::complete, .progress = 1});
  return {};
}

// A loop over the states of a growing file.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
Result<void> Source::read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file) {
  auto reader = TraceReader::open(file, path_.string(), memory_limit_);
  if (!reader) return std::move(reader).error();
  Events events;
  DocumentBuilder builder;
  const auto so_far = [&](std::uint64_t size) {
    return std::make_shared<Trace>(trace_so_far(*reader, events, Bytes{size}));
  };
  ValueCheck values(path_.string());
  EventBatch batch;
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
      const Bytes limit = memory_limit_ == 0_B ? trace_memory_limit(file->size()) : memory_limit_;
      if (Bytes{(events.count() + batch.events.count()) * bytes_of_event} > limit)
        return over_memory_limit(path_.string(), "holds events that need more than", limit);
      if (auto checked = values.check(batch.events); !checked) return checked;
      events.append(batch.events);
      if (auto fits = check_memory(events, {}, limit, path_.string()); !fits) return fits;
      builder.add(batch.events, events, reader->tables());
      published_end = false;
      if (const auto now = Clock::now(); now - last >= interval) {
        last = now;
        interval = std::min(2 * interval, longest_between_publications);
        const double share = static_cast<double>(events.count()) / static_cast<double>(expected);
        // Additions to a fully read file don't switch its status back to reading.
        if (following) {
          publish(builder.publish(so_far(file->size()), true),
                  {.stage = Stage::complete, .progress = 1, .followed = true});
        } else {
          publish(builder.publish(so_far(file->size()), false),
                  {.stage = Stage::reading, .progress = std::min(0.99, share)});
        }
      }
      continue;
    }
    const bool followed = !reader->report().has_footer;
    if (!followed) {
      auto trace = std::make_shared<Trace>(trace_so_far(*reader, std::move(events), Bytes{size}));
      const SourceStatus is_read{.stage = Stage::complete, .progress = 1};
      if (is_completed(*trace) && complete_trace(*trace) > 0) {
        builder = DocumentBuilder();
        index_and_publish(stop, std::move(trace), true, is_read);
      } else {
        publish(builder.publish(std::move(trace), true), is_read);
      }
      return {};
    }
    if (!published_end) {  // the end may come alone, after all events
      publish(builder.publish(so_far(size), true), {.stage = Stage::complete, .progress = 1, .followed = true});
      published_end = true;
    }
    following = true;
    // A program that was killed leaves no footer.
    const SourceStatus is_still{.stage = Stage::complete, .progress = 1, .followed = true, .still = true};
    bool waited = false, completed = false;
    for (const auto since = Clock::now(); !stop.stop_requested(); pause(stop, growth_check)) {
      if (file->size() != size || is_written_anew(beginning, size)) break;
      if (waited || Clock::now() - since < patience) continue;
      waited = true;
      auto trace = so_far(size);
      completed = is_completed(*trace) && complete_trace(*trace) > 0;
      if (completed)
        index_and_publish(stop, std::move(trace), true, is_still);
      else
        set_status(is_still);
    }
    written_anew_ = is_written_anew(beginning, size);
    if (written_anew_) return {};
    if (waited) patience *= 4;
    if (!completed || stop.stop_requested()) continue;
    publish(builder.publish(so_far(file->size()), true), {.stage = Stage::complete, .progress = 1, .followed = true});
  }
  return {};
}

}  // namespace memreel::viewer
