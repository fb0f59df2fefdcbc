// SPDX-License-Identifier: Apache-2.0
// Why requests failed: lack of memory or fragmentation, in the trace's numbers at that moment.
//
// Definitions: docs/out-of-memory.md.
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "analyzer/analysis/category/activity.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

// Groups refusals into incidents: a failed request is refused by its pool, and before that, perhaps twice, by the
// driver.

// How much of a device was free at an instant, estimated between its samples.

/// The memory of a device, as reported by the device.
struct DeviceFree {
  Bytes total;      // the whole device
  Bytes free;       // at the last sample, plus what the program released since, minus what it got
  Nanoseconds age;  // of the sample
};

/// For each of `instants` (events, ascending): the state of its device before the event. If the first sample is later,
/// that one. None if the device has no samples.
std::vector<std::optional<DeviceFree>> device_free_at(const Trace& trace, std::span<const std::uint32_t> instants);

/// The part of a request that one heap refused.
struct Refusal {
  HeapId heap = HeapId::none;
  Bytes requested;                    // from this heap: a pool requests a segment
  std::vector<std::uint32_t> events;  // ascending; several if it was retried
};

/// A request that failed.
struct Incident {
  std::uint32_t event = 0;        // when the program was told: the last refusal
  std::vector<Refusal> refusals;  // the heap that the program asked first, then those below it
};

struct Incidents {
  std::vector<Incident> failed;  // by event
  std::uint64_t retried = 0;     // requests refused by the driver but served on a retry
};

/// A refusal of a heap belongs to the next refusal that the same thread meets in a pool above it, if nothing was served
/// in between and the lower one was for the same request: as large, or a piece of memory to be mapped. The same refusal
/// several times in a row is one request that was retried.
Incidents find_incidents(const Trace& trace);

// How a program goes on after a request that failed, as far as earlier steps show it.

/// What an earlier step requested and freed from the point on where a later one failed, up to the next step.
///
/// The point is found by the stacks of the requests, without marks: the failed request continues the longest run of
/// requests that was made before, from the same places in the same order. A loop inside a step has this property too,
/// so between the two points live memory must have risen and fallen (layers of a forward pass only add to it), and it
/// must not have grown from each step to the next (a cache of keys and values, token by token). Of several earlier
/// steps, the one that asked most nearly as much counts. Its sizes become this step's: a size that this step changed
/// changes likewise, one that also existed before the step (of a parameter, for a gradient) stays, and others change as
/// the sum.
struct RestOfStep {
  Prepared rows;             // the failed request as if served, and the rest; slots go on from the history's
  Bytes more;                // how far live memory rises in the rest
  std::uint64_t rounds = 0;  // earlier steps that reached this point
  /// Those of them that began after the program had first used its newest pool or stream: one that captures a graph in
  /// each step, or makes a stream, needs more in each.
  std::uint64_t settled_rounds = 0;
  double growth = 1;  // bytes requested in this step so far, relative to the most of any earlier one
  /// What must stay free beyond that for later steps to be called served, as they differ from this one: 3 % of what the
  /// step holds if all asked alike; otherwise as much of it as steps have differed by, at least 7 % of it, and 5 % of
  /// all live memory. Measured with tests/lab/advice.
  Bytes margin;

  /// Whether there were enough earlier steps to say what later ones ask; a leak needs as many to be judged.
  bool shows_later_steps() const { return settled_rounds >= 4; }
};

/// The history of `heap` up to the request that failed at `event`, with that request served and kept.
Prepared with_request_served(const Prepared& heap, std::uint32_t event);

/// The history of `heap` up to the request that failed at `event`, and how its step would have gone on.
Prepared with_rest(const Prepared& heap, std::uint32_t event, const RestOfStep& rest);

/// None if no earlier step shows it: the failure is in the first one, what repeats is not a whole step, or gradients
/// are still accumulated for the first pass of an optimizer, which will make its state. `activity`: returns
/// find_activity(trace), if it is needed. Time: linear.
std::optional<RestOfStep> rest_of_step(const Trace& trace, const Prepared& heap, std::uint32_t event,
                                       const std::function<const Activity&()>& activity);

/// Why there was no memory for a request.
enum class OomVerdict : std::uint8_t {
  larger_than_device,  // the request alone exceeds the device: nothing serves it
  lack_of_memory,      // live memory and the request together exceed what there is, however they are placed
  fragmentation,       // there was enough, but not in one piece that the request could use
  unknown,             // the trace does not say how much memory there was
};

/// "larger than the device", "lack of memory", "fragmentation", "unknown".
std::string_view name_of(OomVerdict verdict);

/// How far a setting serves a program whose history ends in its failure; better ones are greater.
enum class Reach : std::uint8_t {
  not_step,     // the request, but not the rest of the step as earlier ones went on
  request,      // the request; what follows is not recorded
  step,         // the rest of the step, too, but later ones may need more
  later_steps,  // later steps, too, as far as earlier ones show what they ask
};

/// What `reach` leaves open, in a few words.
std::string_view reservation_of(Reach reach);

/// A gap, and what lies around it.
struct GapMap {
  static constexpr std::size_t beside = 3;  // blocks on each side
  static constexpr std::size_t strip_width = 64;

  HeapSegment segment;
  std::string strip;              // of the whole segment
  std::vector<HeapBlock> blocks;  // the gap and those beside it, by address
  std::size_t gap = 0;            // its index

  Bytes size() const { return blocks[gap].size; }
};

/// No GPU has more memory; the largest of 2026 has 288 GB.
inline constexpr Bytes largest_device = 512_GiB;

/// A failed request.
struct OutOfMemory {
  std::uint64_t event = 0;         // when the program was told
  HeapId heap = HeapId::none;      // the heap that the program asked
  Level level = Level::framework;  // of that heap
  std::vector<Refusal> refusals;   // by that heap, then by those below it
  PoolStreamKey pool_stream;
  Bytes requested;
  Bytes needed;              // from the device for a segment, in PyTorch's allocator; else the requested bytes
  Bytes live;                // requested bytes of live allocations
  Bytes allocated, pending;  // with rounding; freed while the device was still busy
  bool waited_in_vain =
      false;  // a block that fits became free when the request waited: PyTorch then asks the device only
  Bytes reserved, free, unreleasable;  // free: in the pool
  std::uint64_t gaps = 0;              // number of free pieces
  Bytes free_in_pool_stream;           // in the request's own pool, stream and size class
  Bytes largest_in_pool_stream, largest_free;
  Stranded stranded;
  std::optional<Bytes> capacity;          // upper bound of the memory there can have been
  Bytes least_capacity;                   // lower bound of it
  bool bounded = false;                   // by the device's report, not only by refusals
  std::optional<Bytes> device_free;       // as reported by the device
  std::optional<Nanoseconds> sample_age;  // how long before the failure; none: at the same instant
  std::optional<Bytes> device_total;      // total memory of the device
  OomVerdict verdict = OomVerdict::unknown;
  /// The position between lack of memory (0) and fragmentation (1): 1 - (1 + free/requested)/gaps, at least 0, as in
  /// Linux (fragmentation_index in mm/vmstat.c). 0 if nothing is free.
  double fragmentation_index = 0;
  std::optional<GapMap> gap_in_pool_stream, largest_gap;  // the second only if it differs
  bool in_private_pool = false;       // PyTorch's: it neither releases its cache for such a request nor retries
  std::optional<Bytes> pool_maximum;  // that the pool's own log states
  std::optional<bool> by_program;     // whether a limit of the program's own refused; none: unknown
  bool at_maximum = false;            // the pool said that it could not grow: a maximum, or the device
  bool live_is_known = true;          // else only failures were recorded: 0 bytes of anything say nothing
  bool is_last = false;  // the program requested nothing afterwards: what it would have needed is not recorded
  std::optional<RestOfStep> rest;  // how the step would have gone on, if earlier ones show it; only if is_last
  /// What would have served it but is no survivor.
  struct Served {
    std::size_t remedy = 0;  // index into Remedies::tried
    Reach reach = Reach::request;
    Bytes spare;  // free once it is served, in the pool and on the device, if `reach` is `request`
  };
  std::vector<Served> serve_only;  // first what the program can use; then by `reach` and `spare`
  /// Indices into Remedies::tried of what serves it and, if is_last, later steps: first what serves every
  /// failed request that can be served, then the best-known setting, then what serves the most.
  std::vector<std::size_t> survivors;

  /// Whether the driver refused, so that it was not a limit of the pool.
  bool refused_by_driver() const { return level == Level::driver || refusals.size() > 1; }
  /// Whether the program's own limit refused: the device had enough.
  bool own_limit() const { return device_free && *device_free >= needed && !refused_by_driver(); }
  /// What the pool does not hold and the device had not free: other processes', or taken from the driver by the program
  /// itself, as NCCL and contexts do. None if the device's size is not known.
  std::optional<Bytes> held_outside() const {
    if (!device_total || !device_free) return std::nullopt;
    return *device_total - std::min(*device_total, reserved + *device_free);
  }
};

struct OutOfMemories {
  std::vector<OutOfMemory> examined;  // by event; only the first most_examined
  std::uint64_t count = 0;            // number of all failed requests: each once, however many heaps refused it
  std::uint64_t unsized = 0;          // of these, those whose size is not recorded: none is examined
  std::uint64_t retried = 0;          // requests first refused by the driver, but finally served

  /// The one setting for the whole program: the one of Remedies::tried that serves most of the `fragmented`.
  struct Answer {
    std::size_t remedy = 0;
    std::uint64_t served = 0;
  };
  std::uint64_t fragmented = 0;  // of those examined: no other failure can be served by another setting
  std::optional<Answer> answer;  // none: nothing serves any of them

  /// The failed request that a refusal belongs to; null if it was not examined.
  const OutOfMemory* of_event(std::uint64_t event) const;

  static constexpr std::size_t most_examined = 100;
};

/// Judges every failed request, up to the first OutOfMemories::most_examined, without the replays of `remedies`: what
/// would have served it is left to find_survivors(). `activity`: as for rest_of_step(); `capacity`: as for
/// untried_remedies().
OutOfMemories judge_failures(const Trace& trace, const RecordedBlocks& blocks, const Remedies& remedies,
                             const std::function<const Activity&()>& activity, std::optional<Bytes> capacity = {});

/// Finds what would have served each failure that fragmentation caused, and what serves most of them.
void find_survivors(const Trace& trace, const Remedies& remedies, OutOfMemories& ooms);

/// The verdict in a few sentences with its numbers.
std::string explanation(const OutOfMemory& oom);

/// The verdict and what stands out, in a few words: "lack of memory, 3.6 times any earlier step".
std::string reason_of(const OutOfMemory& oom);

/// What to do about a lack of memory, which no setting cures: raise the limit that refused, free what others hold, or
/// hold less.
std::string remedy_for_lack(const OutOfMemory& oom);

/// The first setting that serves a request, with what is missing if it is no survivor; or that none of those tried
/// does. Empty if none can.
std::string survivor_text(const Remedies& remedies, const OutOfMemory& oom);

/// A line of `width` characters for the bytes from `begin` to `end`: full, partly used or unused.
std::string strip_of(std::span<const HeapBlock> blocks, Address begin, Address end, std::size_t width);

}  // namespace memreel
