// A pool whose log is incomplete: it states what the pool allocated and freed, but not everything.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "formats/import/source/log_lines.h"
#include "formats/model/total_bytes.h"
#include "formats/writer/trace_writer.h"

namespace memreel::logs {

/// One heap of a trace, at the framework level; frees complete at once. If an allocation or a segment appears where
/// another one still is, the log lacks a free: the older one ends, and `losses.hook_refused` counts it. Memory: live
/// allocations, and the segments.
class LoggedPool {
 public:
  LoggedPool(TraceWriter& writer, std::string_view name, std::int32_t device);

  HeapId heap() const { return heap_; }

  /// The caller sets the origin, time, address and size of `event`.
  LineComplaint allocate(Event event, Losses& losses);
  LineComplaint free(Event event);
  LineComplaint add_segment(Event event, Losses& losses);
  /// Frees the oldest segment of event.size without live allocations; false if there is none.
  bool remove_idle_segment(Event event);

 private:
  struct Segment {
    Bytes size;
    std::uint64_t number = 0;  // in order of creation
    std::uint64_t live = 0;    // allocations in it
  };
  using Segments = std::map<Address, Segment>;

  Segments::iterator segment_of(Address address);
  void count_live(Address address, bool more);
  void give_back(Segments::iterator segment, Event event);
  LineComplaint check(const Event& event);

  TraceWriter& writer_;
  HeapId heap_;
  Segments segments_;
  std::set<std::pair<Bytes, std::pair<std::uint64_t, Address>>> idle_;  // size, number, address
  std::uint64_t next_number_ = 0;
  TotalBytes total_;
};

}  // namespace memreel::logs
