#include "viewer/model/source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>

#include "formats/import/import.h"
#include "formats/reader/footer.h"
#include "viewer/model/document_builder.h"

namespace memreel::viewer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds first_publication{30}, longest_between_publications{500};
constexpr std::chrono::milliseconds growth_check{200};

/// For progress: what the footer says, or a guess.
std::uint64_t expected_events(ByteFile& file) {
  const std::uint64_t size = file.size();
  const auto footer = read_footer(file, size);
  if (footer && *footer) return std::max<std::uint64_t>((*footer)->footer.event_count, 1);
  return std::max<std::uint64_t>(size / 4, 1);
}

/// Waits, but not for longer than until `stop`.
void wait(const std::stop_token& stop, std::chrono::milliseconds duration) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace

Source::Source(std::filesystem::path path, std::function<void()> changed)
    : path_(std::move(path)),
      changed_(std::move(changed)),
      document_(std::make_shared<const Document>()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Source::~Source() = default;

std::shared_ptr<const Document> Source::document() const {
  const std::lock_guard lock(mutex_);
  return document_;
}

SourceStatus Source::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::shared_ptr<ByteFile> Source::file() const {
  const std::lock_guard lock(mutex_);
  return file_;
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
    document_.swap(document);  // the old version goes when the lock is gone
    status_ = status;
  }
  if (changed_) changed_();
}

void Source::run(const std::stop_token& stop) {
  auto file = open(stop);
  if (!file) return set_status({.stage = Stage::failed, .error = file.error()});
  {
    const std::lock_guard lock(mutex_);
    file_ = *file;
  }
  if (auto done = read(stop, *file); !done) set_status({.stage = Stage::failed, .error = done.error()});
}

Result<std::shared_ptr<ByteFile>> Source::open(const std::stop_token& stop) {
  ImportOptions options;
  auto last = Clock::now();
  options.on_progress = [&](ImportProgress p) {
    if (const auto now = Clock::now(); now - last >= first_publication && p.bytes_total != 0) {
      last = now;
      set_status({.stage = Stage::importing,
                  .progress = static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes_total)});
    }
  };
  return open_trace(path_, options, stop);
}

Result<void> Source::read(const std::stop_token& stop, const std::shared_ptr<ByteFile>& file) {
  auto reader = TraceReader::open(file, path_.string());
  if (!reader) return std::move(reader).error();
  DocumentBuilder builder;
  EventBatch batch;
  std::uint64_t events = 0;
  auto interval = first_publication;
  auto last = Clock::now() - interval;
  bool published_end = false;
  const std::uint64_t expected = expected_events(*file);
  while (!stop.stop_requested()) {
    auto more = reader->next(batch);
    if (!more) return std::move(more).error();
    if (*more) {
      builder.add(batch, reader->tables());
      events += batch.events.count();
      published_end = false;
      if (const auto now = Clock::now(); now - last >= interval) {
        last = now;
        interval = std::min(2 * interval, longest_between_publications);
        publish(builder.publish(*reader, file->size(), false),
                {.stage = Stage::reading,
                 .progress = std::min(0.99, static_cast<double>(events) / static_cast<double>(expected))});
      }
      continue;
    }
    const bool followed = !reader->report().has_footer;
    if (!published_end) {
      publish(builder.publish(*reader, file->size(), true),
              {.stage = Stage::complete, .progress = 1, .followed = followed});
      published_end = true;
    }
    if (!followed) return {};
    const std::uint64_t size = file->size();
    while (!stop.stop_requested() && file->size() == size) wait(stop, growth_check);
  }
  return {};
}

}  // namespace memreel::viewer
