// SPDX-License-Identifier: Apache-2.0
// A whole trace in memory: the result of load(), and the input of every analysis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/folded.h"
#include "formats/model/initial_heap.h"
#include "formats/model/python_holders.h"
#include "formats/model/tables.h"

namespace memreel {

/// Leaves new elements uninitialised. Zeroing them, only for the trace reader to overwrite them, took a tenth of its
/// time.
template <class T>
class UnsetAllocator : public std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  template <class Other>
  struct rebind {                         // NOLINT(readability-identifier-naming): std::allocator_traits's name
    using other = UnsetAllocator<Other>;  // NOLINT(readability-identifier-naming)
  };

  UnsetAllocator() = default;
  template <class Other>
  explicit UnsetAllocator(const UnsetAllocator<Other>&) noexcept {}

  void construct(T* /*element*/) noexcept {}
  template <class... Arguments>
  void construct(T* element, Arguments&&... arguments) {
    std::construct_at(element, std::forward<Arguments>(arguments)...);
  }
};

/// A std::vector, except that resize(count) leaves new elements uninitialised.
template <class T>
using Column = std::vector<T, UnsetAllocator<T>>;

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

/// Whether these are the missing kinds.
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
  // A flight recorder's: events before `folded_until` that are not in the trace, but summed up (folded.h). What was
  // live then is in the trace: its allocations come first, with their original times and stacks.
  std::uint64_t folded_events = 0;
  Nanoseconds folded_until{};
  std::uint64_t folded_left_out = 0;  // the smallest allocations live then, for which there was no room

  friend bool operator==(const Losses&, const Losses&) = default;
};

/// What a reader had to skip in a damaged or newer file, or in one still being written.
struct ReadReport {
  std::uint64_t damaged_packets = 0;  // failed their CRC, or could not be decoded
  std::uint64_t damaged_bytes = 0;    // bytes skipped because of them
  std::uint64_t unknown_packets = 0;  // intact, but of a kind newer than this reader
  std::uint64_t unknown_events = 0;
  std::uint64_t missing_events = 0;   // known to have been in skipped parts
  std::uint64_t orphaned_frees = 0;   // frees of skipped allocations; kept without allocation, address and size
  std::uint64_t missing_rows = 0;     // table rows known to have been in skipped parts; their fields are empty
  std::uint64_t truncated_bytes = 0;  // an incomplete packet at the end
  bool has_footer = false;            // false: the writer was killed, or is still writing

  bool intact() const {
    return damaged_packets == 0 && missing_events == 0 && missing_rows == 0 && truncated_bytes == 0;
  }
  friend bool operator==(const ReadReport&, const ReadReport&) = default;
};

/// Events as columns of equal length, in recorded order. 37 bytes per event.
struct EventColumns {
  Column<EventKind> kind;
  Column<OriginId> origin;
  Column<StackId> stack;
  Column<AllocationId> allocation;
  Column<Nanoseconds> time;
  Column<std::uint64_t> address_or_value;  // no kind has both; see has_address() and has_value()
  Column<Bytes> size;

  std::size_t count() const { return kind.size(); }
  void reserve(std::size_t events);
  void clear();  // keeps the storage
  void push_back(const Event& event);
  Event operator[](std::size_t i) const;
  Address address(std::size_t i) const { return {address_or_value[i]}; }

  friend bool operator==(const EventColumns&, const EventColumns&) = default;
};

struct Trace {
  Header header;
  Tables tables;
  EventColumns events;
  std::vector<std::uint32_t> allocation_events;  // AllocationId -> index of its `alloc` event
  Losses losses;
  FoldedHistory folded;                    // a flight recorder's; that of the first trace in a concatenation
  std::vector<InitialHeap> initial_heaps;  // of a recording that began late: those whose state then is known
  PythonHolders python_holders;            // as its last walk found them; those of the last trace in a concatenation
  ReadReport read;
  Bytes file_size{};  // 0 if the trace was never a file
};

/// Header::source of a trace written by `memreel predict`. Its source_name says of what, and at which values.
inline constexpr std::string_view synthetic_source = "memreel.predict";

inline Event EventColumns::operator[](std::size_t i) const {
  Event event{.kind = kind[i],
              .origin = origin[i],
              .stack = stack[i],
              .allocation = allocation[i],
              .time = time[i],
              .size = size[i]};
  if (has_value(event.kind))
    event.value = address_or_value[i];
  else
    event.address = {address_or_value[i]};
  return event;
}

inline bool is_synthetic(const Header& header) { return header.source == synthetic_source; }

}  // namespace memreel
