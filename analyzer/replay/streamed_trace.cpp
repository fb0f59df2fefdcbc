// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/streamed_trace.h"

#include <limits>

#include "formats/model/value_check.h"

namespace memreel {
namespace {

Result<TraceReader> open_reader(const std::filesystem::path& path, Bytes memory_limit) {
  Result<std::shared_ptr<ByteFile>> file = open_file(path);
  if (!file) return std::move(file).error();
  return TraceReader::open(*std::move(file), path.string(), memory_limit);
}

/// Calls `take(events)` for each block of about the first `most_events` events until it returns false. Returns the
/// number of these events.
template <class Take>
Result<std::uint64_t> read_blocks(TraceReader& reader, const std::filesystem::path& path, std::uint64_t most_events,
                                  const Take& take) {
  EventBatch batch;
  ValueCheck values(path.string());
  std::uint64_t count = 0;
  while (count < most_events) {
    const Result<bool> more = reader.next(batch);
    if (!more) return more.error();
    if (!*more) break;
    if (auto checked = values.check(batch.events); !checked) return std::move(checked).error();
    count += batch.events.count();
    if (!take(batch.events)) break;
  }
  return count;
}

/// See completed_trace.h.
Result<std::vector<InitialHeap>> restated_heaps(const std::filesystem::path& path, Bytes memory_limit) {
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  Result<TraceReader> reader = open_reader(path, memory_limit);
  if (!reader) return std::move(reader).error();
  std::optional<RestatedHeaps> restated;
  const Result<std::uint64_t> count = read_blocks(*reader, path, all, [&](const EventColumns& events) {
    if (!restated && !reader->folded().empty()) restated.emplace(reader->tables(), reader->folded().until);
    return restated && restated->see(events);
  });
  if (!count) return count.error();
  const bool whole = reader->losses().folded_left_out == 0 && reader->report().intact();
  return restated && whole ? std::move(*restated).heaps() : std::vector<InitialHeap>();
}

/// The metrics of a trace, and what is prepared from it, as its events arrive.
struct StreamedMetrics {
  explicit StreamedMetrics(const Tables& of) : tables(&of), preparation(of), live(of) {}

  void take(const EventColumns& events) {
    preparation.add(events, static_cast<std::uint32_t>(count));
    for (auto heap = static_cast<std::uint32_t>(tallies.size()); heap < tables->heaps.size(); ++heap)
      tallies.emplace_back(*tables, HeapId{heap});
    for (std::size_t i = 0; i < events.count(); ++i) {
      Event event = events[i];
      live.apply(event);  // completes frees
      tallies[index((*tables)[event.origin].heap)].add(event, count + i);
    }
    count += events.count();
    row_counts.resize(tables->heaps.size());
    for (std::uint32_t heap = 0; heap < row_counts.size(); ++heap)
      if (const Prepared* rows = preparation.take_rows(HeapId{heap})) row_counts[heap] += rows->count();
  }

  const Tables* tables;
  Preparation preparation;
  std::vector<HeapTally> tallies;
  LiveSet live;
  std::vector<std::size_t> row_counts;
  std::uint64_t count = 0;
};

}  // namespace

Result<std::unique_ptr<StreamedTrace>> StreamedTrace::open(const std::filesystem::path& path, Bytes memory_limit) {
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  Result<TraceReader> reader = open_reader(path, memory_limit);
  if (!reader) return std::move(reader).error();
  std::unique_ptr<StreamedTrace> result(new StreamedTrace(path, memory_limit));
  const Result<std::vector<InitialHeap>> restated = restated_heaps(path, memory_limit);
  if (!restated) return restated.error();
  std::optional<StreamedMetrics> metrics(std::in_place, reader->tables());
  result->completed_.emplace(reader->tables());
  CompletedStream& subject = *result->completed_;
  const Result<std::uint64_t> count = read_blocks(*reader, path, all, [&](const EventColumns& events) {
    subject.see(events);
    for (const InitialHeap& initial : reader->initial_heaps()) metrics->preparation.start_from(initial);
    for (const InitialHeap& initial : *restated) metrics->preparation.start_from(initial);
    metrics->take(events);
    return true;
  });
  if (!count) return count.error();
  result->recorded_ = *count;
  result->trace_ = {.header = reader->header(),
                    .tables = reader->tables(),
                    .losses = reader->losses(),
                    .initial_heaps = restated->empty() ? reader->initial_heaps() : *restated,
                    .read = reader->report()};
  const bool lacks_frees = may_lack_frees(reader->losses(), reader->report());
  if (subject.end_first_pass(reader->header(), reader->tables(), lacks_frees)) {
    const auto once_more = [&](const auto& take) -> Result<void> {
      Result<TraceReader> again = open_reader(path, memory_limit);
      if (!again) return std::move(again).error();
      const Result<std::uint64_t> read = read_blocks(*again, path, *count, [&](const EventColumns& events) {
        take(events);
        return true;
      });
      if (!read) return read.error();
      return {};
    };
    Result<void> done = once_more([&](const EventColumns& events) { subject.see_again(events); });
    if (!done) return std::move(done).error();
    subject.end_second_pass();
    result->trace_.tables = subject.tables();
    metrics.emplace(result->trace_.tables);
    for (const InitialHeap& initial : result->trace_.initial_heaps) metrics->preparation.start_from(initial);
    CompletedStream::Pass pass(subject);
    done = once_more([&](const EventColumns& events) { metrics->take(pass.next(events)); });
    if (!done) return std::move(done).error();
  } else {
    result->completed_.reset();
  }
  result->event_count_ = metrics->count;
  result->row_counts_ = std::move(metrics->row_counts);
  for (const HeapTally& tally : metrics->tallies)
    if (tally.has_memory()) result->histories_.push_back(tally.history());
  result->heaps_ = std::move(metrics->preparation).finish();
  for (Prepared& heap : result->heaps_) {
    result->row_counts_[index(heap.heap)] += heap.count();  // rows held back so far
    heap.op.clear();
    heap.slot.clear();
    heap.pool_stream.clear();
    heap.size.clear();
    heap.event.clear();
  }
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (!unknown) result->trace_.file_size = {size};
  return result;
}

std::size_t StreamedTrace::row_count(HeapId heap) const { return row_counts_[index(heap)]; }

void StreamedTrace::for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const {
  const Result<void> done = [&]() -> Result<void> {
    Result<TraceReader> reader = open_reader(path_, memory_limit_);
    if (!reader) return std::move(reader).error();
    const Tables& tables = completed_ ? trace_.tables : reader->tables();
    Preparation preparation(tables);
    std::optional<CompletedStream::Pass> pass;
    if (completed_) pass.emplace(*completed_);
    bool wanted = true;
    std::uint64_t at = 0;
    const Result<std::uint64_t> count = read_blocks(*reader, path_, recorded_, [&](const EventColumns& recorded) {
      const EventColumns& events = pass ? pass->next(recorded) : recorded;
      preparation.add(events, static_cast<std::uint32_t>(at));
      at += events.count();
      if (const Prepared* rows = preparation.take_rows(heap)) wanted = take(*rows);
      for (std::uint32_t other = 0; other < tables.heaps.size(); ++other)
        if (HeapId{other} != heap) preparation.take_rows(HeapId{other});
      return wanted;
    });
    if (!count) return count.error();
    if (!wanted) return {};
    for (const Prepared& rest : std::move(preparation).finish())
      if (rest.heap == heap && rest.count() > 0) take(rest);
    return {};
  }();
  if (done) return;
  const std::lock_guard lock(mutex_);
  if (status_) status_ = done;
}

Result<void> StreamedTrace::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace memreel
