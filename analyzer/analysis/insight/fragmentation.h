// SPDX-License-Identifier: Apache-2.0
// Why a heap reserved more than it allocated: what pins its segments, what is stranded on another stream or in another
// pool, and what rounding takes.
//
// Judged at the peak of reserved memory, because that is what a device must have. Of all instants at that peak, the one
// with the most live memory: only what was free even then was useless.
// Definitions: docs/fragmentation.md.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A segment with free memory that can't be released because something in it is live.
struct PinnedSegment {
  HeapSegment segment;
  std::vector<AllocationId> pins;  // at most most_pins, the oldest first
  std::uint64_t pin_count = 0;     // number of all blocks in it

  static constexpr std::size_t most_pins = 4;
};

/// A place in the user's own code (own_frame.h) whose allocations pin segments.
struct PinningSite {
  std::string label;              // "step (train.py:41)"
  StackId stack = StackId::none;  // a stack that ends there
  Bytes unreleasable;             // in the segments that it has blocks in; sites can share a segment
  Bytes alone;                    // in the segments that only this site has blocks in
  std::uint64_t segments = 0;     // that it has blocks in
  std::uint64_t blocks = 0;       // in them
  Bytes bytes;                    // of these blocks
};

/// Live blocks of similar requested size, and what rounding and unsplit remainders cost them.
struct SizeClass {
  Bytes least;  // a power of two: requests from here to below twice this size; 0 for empty requests
  std::uint64_t count = 0;
  Bytes requested, allocated;

  Bytes waste() const { return allocated - requested; }
};

/// The request for which reserved memory grew to its peak.
struct PeakRequest {
  std::uint64_t event = 0;
  StackId stack = StackId::none;
  PoolStreamKey pool_stream;
  Bytes requested;
  Bytes stranded_stream, stranded_pool;  // in gaps large enough for it, of another stream, of another pool
};

/// Totals of a heap at an instant.
struct FragmentationPoint {
  std::uint64_t events = 0;  // number of events so far
  Nanoseconds time{};        // of the last of them
  Bytes reserved, allocated, requested, pending, largest_free, unreleasable;

  Bytes free() const { return reserved - allocated - pending; }
  double fragmentation() const;  // 1 - allocated/reserved; 0 if nothing is reserved
};

/// A part of a heap's reserved bytes, and what these bytes are.
struct ReservedPart {
  Bytes bytes;
  const char* what;
};
/// The parts that are not empty. Their sum is `point.reserved`.
std::vector<ReservedPart> parts_of(const FragmentationPoint& point);

/// The place whose blocks hold most of what is awaiting free.
struct AwaitingSite {
  std::string label;  // "layer (train.py:8)"; empty if nothing is awaiting free
  Bytes bytes;
  StreamId stream = StreamId::default_stream;  // on which they were allocated
};

struct Fragmentation {
  HeapId heap = HeapId::none;
  FragmentationPoint at_peak;               // of reserved memory, when most was live (HeapHistory::peak_reserved_event)
  std::vector<PinnedSegment> pinned;        // at the peak, by unreleasable bytes, descending
  std::vector<PinningSite> sites;           // likewise
  AwaitingSite awaiting;                    // at the peak
  std::vector<PoolStreamUse> pool_streams;  // at the peak, by free memory, descending
  std::vector<SizeClass> size_classes;      // at the peak, by waste, descending
  std::optional<PeakRequest> growth;        // none: the peak was reserved before the recording began
  FragmentationPoint at_start;              // when the recording began, if the peak was reserved before
  std::vector<FragmentationPoint> over_time;  // `points`, evenly spaced over the events, and the moments above
  FragmentationPoint worst;                   // of over_time and at_peak, the one with the most unreleasable bytes
};

/// One result per heap of the trace that records segments and allocations in them. `lives`: lifetimes(trace).
std::vector<Fragmentation> find_fragmentation(const Trace& trace, std::span<const HeapHistory> histories,
                                              std::span<const Lifetime> lives, const RecordedBlocks& blocks,
                                              std::size_t points = 64);

/// The same for one heap at another moment than its peak: after serving the next request at or after `event`.
/// `over_time` has only that moment. Nothing if nothing was reserved or allocated by then.
std::optional<Fragmentation> fragmentation_at(const Trace& trace, const RecordedBlocks& blocks, HeapId heap,
                                              std::uint64_t event);

// The places in the user's code whose blocks keep segments from being released, and what a free block can serve.

/// Collects them over segments.
class PinningSites {
 public:
  using StackOf = std::function<StackId(AllocationId)>;

  /// `tables` must outlive it. `stack_of`: of the allocations in the maps.
  PinningSites(const Tables& tables, StackOf stack_of) : tables_(tables), stack_of_(std::move(stack_of)) {}

  /// Counts what is in use in a segment of `map`.
  void add(const HeapMap& map, const HeapSegment& segment);

  /// The number of an allocation's site, in the order of sites().
  std::size_t number_of(AllocationId id);
  /// In the order in which they were found.
  const std::vector<PinningSite>& sites() const { return sites_; }
  /// Those that pin most first.
  std::vector<PinningSite> sorted() &&;

 private:
  const Tables& tables_;
  StackOf stack_of_;
  std::vector<PinningSite> sites_;
  std::unordered_map<std::uint32_t, std::size_t> by_stack_;
  std::unordered_map<std::string, std::size_t> by_label_;
};

/// The largest request that a free block of PyTorch's small or large pools could serve; 0 if none: the large pools
/// serve requests above 1 MiB only.
Bytes largest_request(const TorchSettings& settings, bool small, Bytes free);

}  // namespace memreel
