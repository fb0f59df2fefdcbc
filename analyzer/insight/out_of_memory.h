// Why requests failed: lack of memory or fragmentation, in the numbers of the trace at that moment.
//
// Definitions: docs/out-of-memory.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/insight/heap_map.h"
#include "analyzer/insight/lane_use.h"
#include "analyzer/insight/remedies.h"
#include "formats/model/trace.h"

namespace memreel {

/// Why there was no memory for a request.
enum class OomVerdict : std::uint8_t {
  lack_of_memory,  // what is live and the request together are more than there is, however they are placed
  fragmentation,   // there was enough, but not in one piece that the request could use
  unknown,         // the trace does not say how much memory there was
};

/// "lack of memory", "fragmentation", "unknown".
std::string_view name_of(OomVerdict verdict);

/// The blocks around a hole.
struct HoleMap {
  HeapSegment segment;
  std::vector<HeapBlock> blocks;                  // all of the segment, by address
  std::size_t hole = 0;                           // which of them it is
  static constexpr std::size_t shown_beside = 3;  // on each side, in text

  Bytes size() const { return blocks[hole].size; }
  std::size_t first_shown() const { return hole - std::min(hole, shown_beside); }
  std::size_t end_shown() const { return std::min(blocks.size(), hole + shown_beside + 1); }
};

/// A request that failed.
struct OutOfMemory {
  std::uint64_t event = 0;
  HeapId heap = HeapId::none;
  LaneKey lane;
  Bytes requested;
  Bytes needed;              // from the device, had it given a segment; of PyTorch's allocator, else what was requested
  Bytes live;                // requested bytes of what is live
  Bytes allocated, pending;  // with rounding; let go of while the device was still busy
  Bytes reserved, free, hostage;  // free: in the pool
  std::uint64_t holes = 0;        // pieces that are free
  Bytes free_in_lane;             // of the request's own pool, stream and size class
  Bytes largest_in_lane, largest_free;
  Stranded stranded;
  std::optional<Bytes> capacity;     // at most so much can there have been
  std::optional<Bytes> device_free;  // as the device said
  OomVerdict verdict = OomVerdict::unknown;
  /// Where between lack of memory (0) and fragmentation (1) it lies: 1 - (1 + free/requested)/holes, not below 0, as
  /// Linux has it (fragmentation_index in mm/vmstat.c). 0 when nothing is free.
  double fragmentation_index = 0;
  std::optional<HoleMap> hole_in_lane, largest_hole;  // the second only when it is another one
  std::vector<std::size_t> survivors;                 // of Remedies::tried: settings and allocators that serve it

  /// Whether what refused was a limit that the program had set itself: the device had enough.
  bool own_limit() const { return device_free && *device_free >= needed; }
};

struct OutOfMemories {
  std::vector<OutOfMemory> examined;  // by event; at most the first most_examined
  std::uint64_t count = 0;            // of all recorded failures

  static constexpr std::size_t most_examined = 100;
};

/// Judges every recorded failure, the first OutOfMemories::most_examined of them.
OutOfMemories judge_failures(const Trace& trace, const RecordedBlocks& blocks, const Remedies& remedies);

/// The verdict in a few sentences with its numbers.
std::string explanation(const OutOfMemory& oom);

/// A line of `width` characters for the bytes from `begin` to `end`: full, partly or not at all in use.
std::string strip_of(std::span<const HeapBlock> blocks, Address begin, Address end, std::size_t width);

}  // namespace memreel
