#include "analyzer/replay/streamed_trace.h"

#include <limits>
#include <utility>

namespace memreel {
namespace {

Result<TraceReader> open_reader(const std::filesystem::path& path) {
  Result<std::shared_ptr<ByteFile>> file = open_file(path);
  if (!file) return std::move(file).error();
  return TraceReader::open(*std::move(file), path.string());
}

/// Feeds a file to a Preparation and calls `after_block(batch, first_event)` after each block, until it returns false.
template <class AfterBlock>
Result<std::uint64_t> prepare_blocks(TraceReader& reader, Preparation& preparation, std::uint64_t most_events,
                                     const AfterBlock& after_block) {
  EventBatch batch;
  std::uint64_t count = 0;
  while (count < most_events) {
    const Result<bool> more = reader.next(batch);
    if (!more) return more.error();
    if (!*more) break;
    preparation.add(batch.events, static_cast<std::uint32_t>(count));
    const bool wanted = after_block(batch, count);
    count += batch.events.count();
    if (!wanted) break;
  }
  return count;
}

}  // namespace

Result<std::unique_ptr<StreamedTrace>> StreamedTrace::open(const std::filesystem::path& path) {
  Result<TraceReader> reader = open_reader(path);
  if (!reader) return std::move(reader).error();
  std::unique_ptr<StreamedTrace> result(new StreamedTrace(path));
  Preparation preparation(reader->tables());
  std::vector<HeapTally> tallies;
  LiveSet live(reader->tables());
  const auto look = [&](const EventBatch& batch, std::uint64_t first_event) {
    for (auto heap = static_cast<std::uint32_t>(tallies.size()); heap < reader->tables().heaps.size(); ++heap)
      tallies.emplace_back(HeapId{heap});
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      live.apply(event);  // completes frees
      tallies[index(reader->tables()[event.origin].heap)].add(event, first_event + i);
    }
    result->row_counts_.resize(reader->tables().heaps.size());
    for (std::uint32_t heap = 0; heap < result->row_counts_.size(); ++heap)
      if (const Prepared* rows = preparation.take_rows(HeapId{heap})) result->row_counts_[heap] += rows->count();
    return true;
  };
  const Result<std::uint64_t> count =
      prepare_blocks(*reader, preparation, std::numeric_limits<std::uint64_t>::max(), look);
  if (!count) return count.error();
  result->event_count_ = *count;
  for (const HeapTally& tally : tallies)
    if (tally.has_memory()) result->histories_.push_back(tally.history());
  result->heaps_ = std::move(preparation).finish();
  for (Prepared& heap : result->heaps_) {
    result->row_counts_[index(heap.heap)] += heap.count();  // what was held back
    heap.op.clear();
    heap.slot.clear();
    heap.lane.clear();
    heap.size.clear();
    heap.event.clear();
  }
  result->trace_ = {
      .header = reader->header(), .tables = reader->tables(), .losses = reader->losses(), .read = reader->report()};
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (!unknown) result->trace_.file_size = {size};
  return result;
}

std::size_t StreamedTrace::row_count(HeapId heap) const { return row_counts_[index(heap)]; }

void StreamedTrace::for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const {
  const Result<void> done = [&]() -> Result<void> {
    Result<TraceReader> reader = open_reader(path_);
    if (!reader) return std::move(reader).error();
    Preparation preparation(reader->tables());
    bool wanted = true;
    const Result<std::uint64_t> count =
        prepare_blocks(*reader, preparation, event_count_, [&](const EventBatch&, std::uint64_t) {
          if (const Prepared* rows = preparation.take_rows(heap)) wanted = take(*rows);
          for (std::uint32_t other = 0; other < reader->tables().heaps.size(); ++other)
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
