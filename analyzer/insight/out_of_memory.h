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

#include "analyzer/insight/device_free.h"
#include "analyzer/insight/heap_map.h"
#include "analyzer/insight/incidents.h"
#include "analyzer/insight/pool_stream_use.h"
#include "analyzer/insight/remedies.h"
#include "formats/model/trace.h"

namespace memreel {

/// Why there was no memory for a request.
enum class OomVerdict : std::uint8_t {
  larger_than_device,  // the request alone is more than the device has: nothing serves it
  lack_of_memory,      // what is live and the request together are more than there is, however they are placed
  fragmentation,       // there was enough, but not in one piece that the request could use
  unknown,             // the trace does not say how much memory there was
};

/// "larger than the device", "lack of memory", "fragmentation", "unknown".
std::string_view name_of(OomVerdict verdict);

/// The blocks around a gap.
struct GapMap {
  HeapSegment segment;
  std::vector<HeapBlock> blocks;                  // all of the segment, by address
  std::size_t gap = 0;                            // which of them it is
  static constexpr std::size_t shown_beside = 3;  // on each side, in text

  Bytes size() const { return blocks[gap].size; }
  std::size_t first_shown() const { return gap - std::min(gap, shown_beside); }
  std::size_t end_shown() const { return std::min(blocks.size(), gap + shown_beside + 1); }
};

/// No GPU has more memory; the largest of 2026 has 288 GB.
inline constexpr Bytes largest_device = 512_GiB;

/// A request that failed.
struct OutOfMemory {
  std::uint64_t event = 0;         // when the program was told
  HeapId heap = HeapId::none;      // that the program asked
  Level level = Level::framework;  // of that heap
  std::vector<Refusal> refusals;   // by that heap, then by those below it
  PoolStreamKey pool_stream;
  Bytes requested;
  Bytes needed;              // from the device, had it given a segment; of PyTorch's allocator, else what was requested
  Bytes live;                // requested bytes of what is live
  Bytes allocated, pending;  // with rounding; freed while the device was still busy
  Bytes reserved, free, unreleasable;  // free: in the pool
  std::uint64_t gaps = 0;              // pieces that are free
  Bytes free_in_pool_stream;           // of the request's own pool, stream and size class
  Bytes largest_in_pool_stream, largest_free;
  Stranded stranded;
  std::optional<Bytes> capacity;          // at most so much can there have been
  Bytes least_capacity;                   // at least so much was there
  bool bounded = false;                   // by what the device said: not by refusals alone
  std::optional<Bytes> device_free;       // as the device said
  std::optional<Nanoseconds> sample_age;  // how long before; none: at this instant
  std::optional<Bytes> device_total;      // what the device has in all
  OomVerdict verdict = OomVerdict::unknown;
  /// Where between lack of memory (0) and fragmentation (1) it lies: 1 - (1 + free/requested)/gaps, not below 0, as
  /// Linux has it (fragmentation_index in mm/vmstat.c). 0 when nothing is free.
  double fragmentation_index = 0;
  std::optional<GapMap> gap_in_pool_stream, largest_gap;  // the second only when it is another one
  /// Of Remedies::tried, what serves it: first what serves all failed requests that anything can, then the setting that
  /// users know best, then what serves most.
  std::vector<std::size_t> survivors;

  /// Whether the driver refused, so that it was no limit of the pool's.
  bool refused_by_driver() const { return level == Level::driver || refusals.size() > 1; }
  /// Whether what refused was a limit that the program had set itself: the device had enough.
  bool own_limit() const { return device_free && *device_free >= needed && !refused_by_driver(); }
};

struct OutOfMemories {
  std::vector<OutOfMemory> examined;  // by event; at most the first most_examined
  std::uint64_t count = 0;            // of all requests that failed: each once, however many heaps refused it
  std::uint64_t retried = 0;          // requests that the driver refused at first and that were served in the end

  /// The one setting for the whole program: of Remedies::tried, what serves most of the `fragmented`.
  struct Answer {
    std::size_t remedy = 0;
    std::uint64_t served = 0;
  };
  std::uint64_t fragmented = 0;  // of those examined: nothing else can be served by another setting
  std::optional<Answer> answer;  // none: nothing serves any of them

  /// The failed request that a refusal belongs to; null when it is none of those examined.
  const OutOfMemory* of_event(std::uint64_t event) const;

  static constexpr std::size_t most_examined = 100;
};

/// Judges every request that failed, the first OutOfMemories::most_examined of them.
OutOfMemories judge_failures(const Trace& trace, const RecordedBlocks& blocks, const Remedies& remedies);

/// The verdict in a few sentences with its numbers.
std::string explanation(const OutOfMemory& oom);

/// The first setting that serves a request, or that none of those tried does; empty where none can.
std::string survivor_text(const Remedies& remedies, const OutOfMemory& oom);

/// A line of `width` characters for the bytes from `begin` to `end`: full, partly or not at all in use.
std::string strip_of(std::span<const HeapBlock> blocks, Address begin, Address end, std::size_t width);

}  // namespace memreel
