// SPDX-License-Identifier: Apache-2.0
// A whole trace in memory: the result of load(), and the input of every analysis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/events.h"
#include "formats/model/python_holders.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel {

/// Whether a heap of this name is PyTorch's: "torch.cuda", "torch.xpu", "torch.host"... A pool that a program calls
/// "torchrec" is not.
inline bool is_torch_name(std::string_view heap) { return heap.starts_with("torch."); }

/// Whether the heap belongs to PyTorch's caching allocator, whose rules are known.
inline bool is_torch_heap(const Tables& tables, HeapId heap) {
  const Heap& row = tables[heap];
  return row.level == Level::framework && row.device >= 0 && is_torch_name(tables[row.name]);
}

// Which memory a sample (memory_info) is about: of PyTorch's heap, what its allocator had reserved, allocated and
// cached together.

/// Whether samples of this origin cover all that the heap can have: the device, for the driver's heap, or a framework's
/// limit. Else they cover what a pool (cudaMemPool_t) or PyTorch's allocator has, and say nothing about the device.
inline bool samples_whole_heap(const Tables& tables, const Origin& origin) {
  return origin.pool == PoolId::default_pool && !is_torch_heap(tables, origin.heap);
}

/// Whether samples of this origin cover the device itself: its memory, as used by all programs.
inline bool samples_device(const Tables& tables, const Origin& origin) {
  return samples_whole_heap(tables, origin) && tables[origin.heap].level == Level::driver &&
         tables[origin.heap].device >= 0;
}

// What an allocator held when its recording began, and how it was divided.

enum class InitialUse : std::uint8_t {
  free = 0,
  allocated = 1,
  pending = 2,  // freed by the program, still in use by the device
};

/// A piece of a segment. What was taken for an allocation includes what rounding added and what was not split off; who
/// made the allocation, and the size requested, is in the event that stands for it.
struct InitialBlock {
  Bytes size;  // above 0
  InitialUse use = InitialUse::free;

  friend bool operator==(const InitialBlock&, const InitialBlock&) = default;
};

/// Memory held from the device: a segment, or adjacent mapped memory in a range of addresses.
struct InitialSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;  // its pool and stream
  bool small = false;                // serves small requests only (PyTorch: up to 1 MiB)
  bool mapped = false;               // part of an expandable segment
  Address range;                     // of an expandable segment: where it begins; else `address`
  std::vector<InitialBlock> blocks;  // from the front, without gaps; no two free ones are adjacent

  friend bool operator==(const InitialSegment&, const InitialSegment&) = default;
};

/// A heap whose state before its first recorded operation is known. Its first events stand for the same memory: an
/// alloc, and for a pending block its free_requested, for each block that is not free, in order of addresses.
struct InitialHeap {
  HeapId heap = HeapId::none;
  std::vector<InitialSegment> segments;  // by address, disjoint

  friend bool operator==(const InitialHeap&, const InitialHeap&) = default;
};

/// Whether the segments keep the order and the limits stated above: a file may hold others.
bool is_sound(const InitialHeap& initial);

// What a flight recorder keeps of discarded events: sums per stack over time.

/// Readers treat more than this as damage.
inline constexpr std::uint32_t max_folded_intervals = 4096;

/// The activity of one stack in one heap during one interval.
struct FoldedRow {
  std::uint32_t interval = 0;  // counted from FoldedHistory::begin
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;  // of the allocations, for frees too
  std::uint64_t allocations = 0, frees = 0;
  Bytes allocated, freed;  // requested bytes

  friend bool operator==(const FoldedRow&, const FoldedRow&) = default;
};

/// All allocations and frees from `begin` until `until`, whether or not the trace still has their events.
struct FoldedHistory {
  Nanoseconds begin{}, until{};
  Nanoseconds interval{};       // the length of each; 0: nothing was folded
  std::vector<FoldedRow> rows;  // by interval, heap and stack; each combination once

  bool empty() const { return rows.empty(); }
  friend bool operator==(const FoldedHistory&, const FoldedHistory&) = default;
};

// Recordings of instants: PyTorch's snapshots without traces (include_traces=False, or a list of segments). They say
// what is live and where, but not how it came about.

/// The event kinds missing from a recording of one instant.
constexpr EventKinds all_of_a_history() {
  EventKinds kinds;
  for (const EventKind kind : {EventKind::alloc, EventKind::free_requested, EventKind::free_completed,
                               EventKind::segment_alloc, EventKind::segment_free})
    kinds.add(kind);
  return kinds;
}

/// The event kinds missing from a series of them. Even failures are unknown: of what happened between two instants,
/// only what lasted until the second shows.
constexpr EventKinds all_between_instants() { return all_of_a_history() | EventKinds(EventKind::alloc_failed); }

/// The event kinds missing from a log that says of nothing but failed requests.
constexpr EventKinds all_but_failures() {
  return all_of_a_history() | EventKinds(EventKind::segment_map) | EventKinds(EventKind::segment_unmap);
}

/// The event kinds missing from a log of what a pool reserved.
constexpr EventKinds all_in_segments() { return EventKinds(EventKind::alloc) | EventKinds(EventKind::free_requested); }

/// Whether these are the missing kinds of an instant, or of a series of them.
constexpr bool is_no_history(EventKinds skipped) {
  return skipped.bits() == all_of_a_history().bits() || skipped.bits() == all_between_instants().bits();
}

/// Texts by name. A header has at most max_variables of each kind.
using Variables = std::map<std::string, std::string, std::less<>>;
inline constexpr std::size_t max_variables = 256;

/// Of the recorded machine's memory. Numbers as in the file.
enum class ByteOrder : std::uint8_t { unknown = 0, little = 1, big = 2 };

/// A trace's description of itself, first in the file.
struct Header {
  std::string producer;     // "memreel 0.1.0"
  std::string source;       // "torch.snapshot", "cupti"...
  std::string source_name;  // base name of the imported file, or the program's command line
  std::string host;
  std::uint64_t process = 0;
  Nanoseconds start{};    // when the recording began, since the Unix epoch; 0 if unknown
  std::string machine{};  // its processor's, as `uname -m`: "x86_64", "aarch64"; empty if unknown
  ByteOrder byte_order = ByteOrder::unknown;
  Bytes page_size{};        // 0 if unknown
  Variables environment{};  // the process's rank and job (launchers.h), and the allocator's settings
  Variables versions{};     // of loaded libraries: "python", "torch", "cuda.driver", "cuda.runtime"

  friend bool operator==(const Header&, const Header&) = default;
};

/// Makes the texts of a program printable, as stack_text.h describes.
void make_printable(Header& header);

/// Ways in which a trace can be incomplete. Every report shows those that are not zero.
struct Losses {
  std::uint64_t ring_full = 0;                // events dropped: the recorder's ring was full
  std::uint64_t stack_table_full = 0;         // events that were kept but lost their stack
  std::uint64_t hook_refused = 0;             // calls that could not be observed
  std::uint64_t unknown_actions = 0;          // records in the source that the importer does not recognise
  std::uint64_t unmatched_frees = 0;          // frees of allocations that the trace never saw
  std::uint64_t preexisting_allocations = 0;  // live before the recording began: no stack, no time
  bool began_late = false;                    // the program already held memory when the recording began
  bool history_overflowed = false;            // the source's ring overwrote its oldest events
  EventKinds skipped;                         // kinds that the recorder was configured to leave out
  // A flight recorder's: events before `folded_until` that are not in the trace, but summed up (FoldedHistory). What
  // was live then is in the trace: its allocations come first, with their original times and stacks.
  std::uint64_t folded_events = 0;
  Nanoseconds folded_until{};
  std::uint64_t folded_left_out = 0;   // the smallest allocations live then, for which there was no room
  std::uint64_t unsized_failures = 0;  // requests that failed, of which neither size nor heap were recorded

  friend bool operator==(const Losses&, const Losses&) = default;
};

/// A recording that follows another in a file (docs/trace-format.md, concatenation): its events and heaps come after
/// those of the one before, and its times may have nothing to do with theirs.
struct LaterRecording {
  std::uint32_t first_event = 0;
  HeapId first_heap = HeapId::none;

  friend bool operator==(const LaterRecording&, const LaterRecording&) = default;
};

/// What a reader had to skip in a damaged or newer file, or in one still being written.
struct ReadReport {
  std::uint64_t damaged_packets = 0;  // failed their CRC, or could not be decoded
  std::uint64_t damaged_bytes = 0;    // bytes skipped because of them
  std::uint64_t unknown_packets = 0;  // intact, but of a kind newer than this reader
  std::uint64_t unknown_events = 0;
  std::uint64_t missing_events = 0;   // known to have been in skipped parts
  std::uint64_t orphaned_frees = 0;   // frees of skipped allocations; kept without allocation, address and size
  std::uint64_t missing_rows = 0;     // table rows known to have been in skipped parts; their names are "(lost)"
  std::uint64_t truncated_bytes = 0;  // an incomplete packet at the end
  bool has_footer = false;            // false: the writer was killed, or is still writing
  std::vector<LaterRecording> later;  // of a concatenation: all recordings but the first

  bool intact() const {
    return damaged_packets == 0 && missing_events == 0 && missing_rows == 0 && truncated_bytes == 0;
  }
  friend bool operator==(const ReadReport&, const ReadReport&) = default;
};

struct Trace {
  Header header;
  Tables tables;
  Events events;
  Losses losses;
  FoldedHistory folded;                    // a flight recorder's; that of the first trace in a concatenation
  std::vector<InitialHeap> initial_heaps;  // of a recording that began late: those whose state then is known
  PythonHolders python_holders;            // as its last walk found them; those of the last trace in a concatenation
  ReadReport read;
  Bytes file_size{};  // 0 if the trace was never a file
};

/// How long after the first event of its recording an event was.
inline Nanoseconds since_start(const Trace& trace, std::uint64_t event) {
  std::uint32_t first = 0;
  for (const LaterRecording& recording : trace.read.later)
    if (recording.first_event <= event) first = recording.first_event;
  return trace.events.time(static_cast<std::size_t>(event)) - trace.events.time(first);
}

/// Header::source of a trace written by `memreel predict`. Its source_name says of what, and at which values.
inline constexpr std::string_view synthetic_source = "memreel.predict";

inline bool is_synthetic(const Header& header) { return header.source == synthetic_source; }

/// Header::source of an import whose metadata are the categories of PyTorch's profiler, not notes of the program.
inline constexpr std::string_view profiled_source = "torch.timeline";

/// Header::source of an import that has the sums and peaks of an allocator's statistics, but no blocks.
inline constexpr std::string_view sums_source = "torch.stats";

// What a flight recorder's sums say of the peak, which may be older than the events that it keeps.

/// Bytes that were live in the heap at some moment before the events that are kept, at least: sums at the ends of
/// intervals, or an allocation of average size. 0: nothing was folded.
Bytes folded_peak(const FoldedHistory& folded, HeapId heap);

}  // namespace memreel
