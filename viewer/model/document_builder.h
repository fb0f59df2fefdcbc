// SPDX-License-Identifier: Apache-2.0
// Makes Documents of a trace while it gets longer.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "formats/model/flat_map.h"
#include "formats/model/trace.h"
#include "viewer/model/document.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {

/// Events between keyframes: few enough that a state can be rebuilt within one frame.
inline constexpr std::uint32_t keyframe_interval = 1U << 16U;

/// For use on one thread. Memory: about 5 bytes for each event besides those of the trace, plus the live state.
class DocumentBuilder {
 public:
  /// `interval`: events between keyframes when little is live.
  explicit DocumentBuilder(std::uint32_t interval = keyframe_interval)
      : keyframe_interval_(interval), next_keyframe_(interval) {}

  /// Adds the next events, which are the last ones of `all`. `tables`: those that they refer to.
  void add(const EventColumns& block, const Events& all, const Tables& tables);
  /// Adds the next events of a trace, all before `end`.
  void add(const Trace& trace, std::size_t end);

  /// The document up to here. `trace` has the events that were added, perhaps more. `complete`: it has no others.
  std::shared_ptr<Document> publish(std::shared_ptr<const Trace> trace, bool complete);

 private:
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

  Series& series_of(HeapId heap);
  void begin_leaf(Nanoseconds time);
  void end_leaf();
  void add_event(const Event& event);
  void add_alloc(const Event& event);
  void add_free(const Event& event);
  void add_other(std::int64_t reserved_change = 0) {
    other_.push_back(OtherRow{.at = at_, .reserved_change = reserved_change});
  }
  /// Ends whatever part of an allocation's life has not ended.
  void end_allocation(std::uint32_t id, Series& series);
  void complete(std::uint32_t id, Series& series);
  void add_mark(const Event& event);
  void take_keyframe();
  /// After an event of `series`.
  void follow(Series& series) const;

  std::uint32_t keyframe_interval_, next_keyframe_;
  const Tables* tables_ = nullptr;
  const Events* events_ = nullptr;
  std::uint32_t at_ = 0;  // the event being added
  Growing<std::int64_t> leaf_latest_;
  Growing<LateEvent> requested_, completed_;
  Growing<FreeByPlace> free_by_place_;
  Growing<OtherRow> other_;
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
  Sites sites_;
  std::shared_ptr<const SiteTable> published_sites_ = std::make_shared<const SiteTable>();
};

}  // namespace memreel::viewer
