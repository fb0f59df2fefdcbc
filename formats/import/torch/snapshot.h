// SPDX-License-Identifier: Apache-2.0
// A PyTorch memory snapshot as plain data: the result of torch.cuda.memory._snapshot(), reduced to what a trace needs.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "formats/model/python_holders.h"
#include "formats/model/units.h"

namespace memreel::torch {

/// PyTorch's MempoolId_t. {0, 0} is the default pool; {n, 0} belongs to CUDA graphs, {0, n} to a torch.cuda.MemPool.
struct PoolKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
};

/// Free memory can only serve requests with the same values.
struct PoolStream {
  std::uint64_t stream = 0;     // handle
  std::optional<PoolKey> pool;  // none: not recorded
  friend bool operator==(const PoolStream&, const PoolStream&) = default;
};
enum class PoolStreamId : std::uint32_t {};

/// The distinct (pool, stream) pairs of a snapshot.
class PoolStreams {
 public:
  PoolStreamId id(const PoolStream& pool_stream) {
    // Consecutive entries usually share pool and stream.
    if (!pool_streams_.empty() && (*this)[latest_] == pool_stream) return latest_;
    return latest_ = look_up(pool_stream);
  }
  const PoolStream& operator[](PoolStreamId id) const { return pool_streams_[static_cast<std::size_t>(id)]; }
  std::size_t count() const { return pool_streams_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const PoolStream& pool_stream) const;
  };
  PoolStreamId look_up(const PoolStream& pool_stream);

  std::vector<PoolStream> pool_streams_;
  std::unordered_map<PoolStream, PoolStreamId, Hash> ids_;
  PoolStreamId latest_{};
};

enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
  mark,
};

constexpr bool releases_segment(Action action) {
  return action == Action::segment_free || action == Action::segment_unmap;
}
constexpr bool acquires_segment(Action action) {
  return action == Action::segment_alloc || action == Action::segment_map;
}
constexpr bool has_address(Action action) { return action < Action::oom; }

/// Time of entries before PyTorch 2.2, which recorded none.
inline constexpr std::int64_t no_time = std::numeric_limits<std::int64_t>::min();

/// One record of a device's history. Millions are in memory at once.
struct Entry {
  std::int64_t time_us = no_time;  // since the Unix epoch
  std::uint64_t address = 0;       // oom: of free_when_failed(); mark: MarkId
  std::uint64_t size = 0;          // bytes; of allocations as requested
  StackId stack = StackId::none;
  std::uint32_t place_and_action = 0;

  Action action() const { return static_cast<Action>(place_and_action & 15U); }
  PoolStreamId pool_stream() const { return static_cast<PoolStreamId>(place_and_action >> 4U); }
  void set(Action action, PoolStreamId pool_stream) {
    place_and_action = static_cast<std::uint32_t>(pool_stream) << 4U | static_cast<std::uint32_t>(action);
  }
};
static_assert(sizeof(Entry) == 32);
/// More (pool, stream) pairs than an entry can refer to.
inline constexpr std::size_t max_pool_streams = std::size_t{1} << 28U;

/// Grows without ever holding its content twice, unlike a vector during reallocation.
class Entries {
 public:
  void push_back(const Entry& entry) {
    if (count_ % chunk == 0) chunks_.emplace_back().reserve(chunk);
    chunks_.back().push_back(entry);
    ++counts_[static_cast<std::size_t>(entry.action())];
    if (acquires_segment(entry.action()) || releases_segment(entry.action())) of_segments_.push_back(count_);
    ++count_;
  }
  std::size_t count() const { return count_; }
  std::size_t count(Action action) const { return counts_[static_cast<std::size_t>(action)]; }
  /// Those that acquire or release segments, which are few.
  const std::vector<std::size_t>& of_segments() const { return of_segments_; }
  /// Frees the memory of those before `end`, which must not be used again.
  void forget_before(std::size_t end) {
    if (end % chunk == 0 && end != 0) std::vector<Entry>().swap(chunks_[end / chunk - 1]);
  }
  const Entry& operator[](std::size_t i) const { return chunks_[i / chunk][i % chunk]; }
  /// Its action must stay.
  Entry& operator[](std::size_t i) { return chunks_[i / chunk][i % chunk]; }

 private:
  static constexpr std::size_t chunk = 1U << 15U;
  std::vector<std::vector<Entry>> chunks_;
  std::size_t count_ = 0;
  std::array<std::size_t, 16> counts_{};  // by action
  std::vector<std::size_t> of_segments_;
};

/// An allocation that was live when the snapshot was taken.
struct Block {
  Address address;
  Bytes requested;
  Bytes size;                     // including rounding; 0: not known
  StackId stack = StackId::none;  // where it was allocated, if recorded
  bool pending = false;           // free requested, not completed
  StringId metadata = StringId::none;
};

struct Segment {
  Address address;
  Bytes size;
  PoolStreamId pool_stream{};
  bool expandable = false;
  bool small = false;         // serves small requests, as it states itself
  std::vector<Block> blocks;  // active ones, by address
};

struct Annotation {
  std::int64_t time_us = 0;
  MarkId mark = MarkId::none;
};

/// The program's note about one allocation: with its request, or about what lives at an address (annotate).
struct Metadata {
  std::size_t entry = 0;                 // the request, or the entry after the note
  std::optional<std::uint64_t> address;  // of an allocation that was live then
  StringId text = StringId::none;
};

struct DeviceHistory {
  Entries entries;                 // those that become events, in recorded order
  std::uint64_t recorded = 0;      // entries of all actions: how full PyTorch's ring was
  std::vector<Segment> segments;   // when the snapshot was taken, by address
  std::vector<Annotation> ranges;  // by time
  std::vector<Metadata> metadata;  // by entry
  bool states_times = false;       // entries have times
  bool states_pools = false;       // each entry states its pool
  bool has_exact_sizes = false;    // an address is used where only an unrounded size ends
};

/// More than a machine has: PyTorch's own numbers end at 127 (c10::DeviceIndex).
inline constexpr int most_devices = 1'000;

struct Snapshot {
  std::map<std::int32_t, DeviceHistory> devices;  // by ordinal
  DeviceHistory host;                             // of pinned host memory (2.14+)
  std::string device_type = "cuda";               // "xpu" has the same allocator and file format
  PoolStreams pool_streams;
  /// `allocator_settings`: values as Python prints them (True, 0.6, -1), texts without quotes, dicts as
  /// "[key:value,...]". So roundup_power2_divisions is the resolved table of 16 buckets in MiB:
  /// "[1:0,2:0,4:0,...,32768:0]".
  std::vector<std::pair<std::string, std::string>> settings;
  std::uint64_t unknown_actions = 0;
  std::uint64_t cut_stacks = 0;                                             // deeper than the maximum stack depth
  std::uint64_t ring_capacity = std::numeric_limits<std::uint64_t>::max();  // entries per device
  bool ring_overflowed = false;                                             // as stated by PyTorch (2.12+)
  bool lists_allocations = false;                                           // blocks do, as up to 2.0
  bool has_annotations = false;
  bool has_host_traces = false;
  bool is_series = false;  // entries are differences between instants (torch_snapshot.h)
  /// Snapshots that memreel exported name their release: they state pools for any, and for traces that don't state
  /// theirs, whose name is empty.
  std::optional<std::string> named_release;
  PythonHolders python_holders;  // that memreel.torch_oom_hook() added: `memreel_holders`
};

// The keys and constants of PyTorch memory snapshots, so that each distinct text is compared only once.

enum class SnapshotKey : std::uint8_t {
  not_looked_up = 0,  // the initial note of a text, see ValueArena::text_note()
  other,
  // root
  segments,
  device_traces,
  allocator_settings,
  external_annotations,
  host_segments,
  host_traces,
  device_type,
  pytorch_release,
  memreel_holders,
  // segments and blocks
  address,
  blocks,
  device,
  frames,
  history,
  is_expandable,
  real_size,
  requested_size,
  segment_pool_id,
  segment_type,
  size,
  state,
  stream,
  total_size,
  active_allocated,
  active_awaiting_free,
  active_pending_free,
  small,
  // trace entries
  action,
  addr,
  compile_context,
  device_free,
  memreel_free_unknown,  // of an export whose trace does not say it
  pool_id,
  time_us,
  user_metadata,
  alloc,
  annotate,
  free_completed,
  free_requested,
  oom,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  user_defined,
  // frames
  filename,
  line,
  name,
  // annotations
  stage,
  start,
  end,
  // settings
  roundup_power2_divisions,
  trace_alloc_max_entries,
  trace_alloc_overflowed,
};

/// `other` when the text is none of the above.
SnapshotKey key_of(std::string_view text);

}  // namespace memreel::torch
