// SPDX-License-Identifier: Apache-2.0
// Turns a stream of events into Documents.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "formats/model/flat_map.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/document.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {

/// Events between keyframes: few enough that a state can be rebuilt within one frame.
inline constexpr std::uint32_t keyframe_interval = 1U << 16U;

/// For use on one thread. Memory: about 16 bytes for each event, plus the live state.
class DocumentBuilder {
 public:
  /// `interval`: events between keyframes when little is live.
  explicit DocumentBuilder(std::uint32_t interval = keyframe_interval)
      : keyframe_interval_(interval), next_keyframe_(interval) {}

  /// How often the file was overwritten with another trace: Document::begun_anew.
  void set_begun_anew(std::uint32_t times) { begun_anew_ = times; }

  /// The trace that the next documents show, for jobs: Document::whole.
  void set_whole(std::shared_ptr<WholeTrace> whole) { whole_ = std::move(whole); }

  /// Adds the events of a batch. `tables`: those that the batch refers to.
  void add(const EventBatch& batch, const Tables& tables) { add(batch.events, 0, batch.events.count(), tables); }
  /// Adds the events `begin` .. `end` - 1.
  void add(const Trace& trace, std::size_t begin, std::size_t end) { add(trace.events, begin, end, trace.tables); }

  /// The document up to here, of what is read or of what is in memory.
  std::shared_ptr<const Document> publish(const TraceReader& reader, std::uint64_t bytes, bool complete);
  std::shared_ptr<const Document> publish(const Trace& trace, std::uint64_t bytes, bool complete);

 private:
  /// What a trace has besides events.
  struct Described {
    const Header& header;
    const Tables& tables;
    const Losses& losses;
    const FoldedHistory& folded;
    const ReadReport& read;
  };
  /// The running state of a heap.
  struct Series {
    HeapId heap = HeapId::none;
    Pyramid pyramid;
    Metrics now{}, before{};  // `before`: before the event being added
    Extent leaf;              // of the incomplete leaf
    std::uint64_t allocations = 0, failures = 0;
    std::uint64_t peak_live = 0, peak_reserved = 0, live_at_peak_reserved = 0;
    std::uint32_t peak_live_event = 0, peak_reserved_event = 0;
    bool has_segments = false, has_pending = false, used = false;
    Growing<std::uint32_t> samples;
  };

  /// `From`: Events or EventColumns.
  template <class From>
  void add(const From& events, std::size_t begin, std::size_t end, const Tables& tables);
  std::shared_ptr<const Document> publish(const Described& trace, std::uint64_t bytes, bool complete);
  Series& series_of(HeapId heap);
  void begin_leaf(Nanoseconds time);
  void end_leaf();
  void add_event(Event event);
  void add_alloc(const Event& event);
  void add_free(const Event& event);
  void add_other(const Event& event, std::int64_t reserved_change);
  /// Ends whatever part of an allocation's life has not ended.
  void end_allocation(std::uint32_t id, Series& series);
  void complete(std::uint32_t id, Series& series);
  void add_mark(const Event& event);
  void take_keyframe();
  /// After an event of `series`.
  void follow(Series& series) const;

  std::uint32_t begun_anew_ = 0;
  std::shared_ptr<WholeTrace> whole_;
  std::uint32_t keyframe_interval_, next_keyframe_;
  const Tables* tables_ = nullptr;
  std::uint32_t at_ = 0;  // the event being added
  GrowingPacked time_offset_, subject_, address_, size_, stack_, origin_;
  Growing<std::int64_t> leaf_time_, leaf_latest_;
  Growing<std::uint32_t> leaf_allocation_;
  Growing<LateEvent> requested_, completed_;
  Growing<OtherEvent> other_;
  Growing<std::uint32_t> notable_, failure_, emptied_, setting_, instant_;
  Growing<MarkSpan> span_;
  Growing<LateEvent> span_end_;
  std::map<ThreadId, std::vector<std::uint32_t>> open_spans_;  // innermost last
  std::unordered_map<StringId, std::uint32_t> spans_named_;    // number so far
  std::uint32_t span_depths_ = 0;
  SegmentHistory segments_;
  FlatMap<HeapAddress, HeapAddressHash> by_place_;
  std::vector<Series> all_series_;
  std::vector<std::shared_ptr<const Keyframe>> keyframes_;
  std::shared_ptr<const Tables> published_tables_;
  std::shared_ptr<const FoldedHistory> published_folded_ = std::make_shared<const FoldedHistory>();
  Sites sites_;
  std::shared_ptr<const SiteTable> published_sites_ = std::make_shared<const SiteTable>();
};

}  // namespace memreel::viewer
