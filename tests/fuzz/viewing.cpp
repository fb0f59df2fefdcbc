// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/viewing.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "analyzer/replay/completed_trace.h"
#include "formats/import/import.h"
#include "formats/model/value_check.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/allocation_list.h"
#include "viewer/model/allocation_map.h"
#include "viewer/model/axis.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/document_builder.h"
#include "viewer/model/flame.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/stacked_series.h"
#include "viewer/model/typed_input.h"

namespace memreel::fuzz {
namespace {

using namespace viewer;

/// The bytes as a trace; null if they are not one and can't be imported.
std::shared_ptr<ByteFile> trace_of(std::span<const std::uint8_t> recording, std::vector<std::byte>& imported) {
  if (looks_like_trace(std::as_bytes(recording))) return memory_file(std::as_bytes(recording));
  class Whole final : public ByteStream {
   public:
    explicit Whole(std::span<const std::byte> bytes) : bytes_(bytes) {}
    Result<std::size_t> read(std::span<std::byte> into) override {
      const std::size_t count = std::min(into.size(), bytes_.size() - at_);
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, into.begin());
      at_ += count;
      return count;
    }
    std::uint64_t stored_position() const override { return at_; }

   private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
  };
  OpenedFile file{.bytes = std::make_unique<Whole>(std::as_bytes(recording)),
                  .stored_size = recording.size(),
                  .where = "fuzz",
                  .memory_limit = 64_MiB};
  if (!import_bytes(std::move(file), "fuzz", memory_sink(imported), {.writer = {}})) return nullptr;
  return memory_file(imported);
}

constexpr std::uint32_t keyframes = 64;

std::shared_ptr<const Document> document_of(const std::shared_ptr<ByteFile>& file) {
  auto reader = TraceReader::open(file, "fuzz");
  if (!reader) return nullptr;
  DocumentBuilder builder(keyframes);
  Events events;
  ValueCheck values("fuzz");
  for (EventBatch batch;;) {
    const auto more = reader->next(batch);
    if (!more || !*more) break;
    if (!values.check(batch.events)) return nullptr;
    events.append(batch.events);
    builder.add(batch.events, events, reader->tables());
  }
  return builder.publish(std::make_shared<const Trace>(trace_so_far(*reader, std::move(events), {file->size()})), true);
}

void ask(const std::shared_ptr<const Document>& asked, const HeapSeries& series) {
  const Document& document = *asked;
  std::atomic<float> share = 0;
  const Progress progress({}, share);
  const HeapId heap = series.heap;
  const Nanoseconds begin = document.first_time(), end = document.last_time();
  const std::uint32_t all = document.event_count();
  series_columns(document, series, begin, end, 100);
  series_columns(document, series, begin + (end - begin) / 3, begin + (end - begin) / 2, 7);
  free_columns(document, series, begin, end, 10);
  sampled_series(document, heap);
  unattributed(document, heap, all);
  const auto sieve = std::make_shared<const Sieve>(asked, typed_filter(">1KiB f"), nullptr);
  for (const AllocationOrder order : {AllocationOrder::begin, AllocationOrder::size, AllocationOrder::lifetime,
                                      AllocationOrder::address, AllocationOrder::stack})
    list_allocations(
        document, {.heap = heap, .sieve = order == AllocationOrder::size ? sieve : nullptr, .order = order}, progress);
  draw_map(
      document, {.heap = heap, .begin = begin, .end = end, .width = 60, .height = 40}, [](std::uint32_t) { return 0U; },
      0, progress);
  allocation_at(document, heap, end, Address{1});
  const auto rounding = find_rounding(document, progress);
  for (const std::uint32_t events : {0U, all / 2, all})
    heap_at(document, heap, events, rounding ? &*rounding : nullptr);
  for (const Weighing weighing : {Weighing::live_at_cursor, Weighing::allocated, Weighing::peak, Weighing::kept})
    if (const auto weights = weigh_stacks(document, {.weighing = weighing, .heap = heap, .end_event = all}, progress))
      for (const bool bottom_up : {false, true})
        flame_graph(*document.tables, *weights,
                    {.are_nodes = frames_without_wrappers(*document.tables), .bottom_up = bottom_up});
  for (std::size_t by = 0; by < split_words.size(); ++by)
    split_series(document, {.heap = heap, .by = static_cast<SplitBy>(by)}, progress);
  if (const Steps steps = steps_of(document, heap); !steps.ends.empty()) SideScale::by_step(document, steps);
}

/// As it is shown; null if it is shown as recorded.
std::shared_ptr<const Document> completed_document_of(const std::shared_ptr<ByteFile>& file) {
  auto trace = load_checked(file, "fuzz");
  if (!trace || complete_trace(*trace) == 0) return nullptr;
  DocumentBuilder builder(keyframes);
  builder.add(*trace, trace->events.count());
  return builder.publish(std::make_shared<const Trace>(*std::move(trace)), true);
}

void ask(const std::shared_ptr<const Document>& document) {
  if (document == nullptr || document->empty()) return;
  recording_share(*document);
  has_known_rounding(*document);
  for (const HeapSeries& series : document->heaps) ask(document, series);
}

}  // namespace

void view(std::span<const std::uint8_t> recording) {
  std::vector<std::byte> imported;
  const std::shared_ptr<ByteFile> file = trace_of(recording, imported);
  if (file == nullptr) return;
  ask(document_of(file));
  ask(completed_document_of(file));
}

}  // namespace memreel::fuzz
