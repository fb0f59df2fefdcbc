// SPDX-License-Identifier: Apache-2.0
// Differences between two recordings, or two instants of one: growth by call stack, and the peaks of their steps.
#pragma once

#include <map>
#include <set>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/difference/instant.h"
#include "analyzer/analysis/difference/stack_match.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// Signed, for display: positive is more in B.
constexpr std::int64_t change(Bytes a, Bytes b) { return static_cast<std::int64_t>(b.count - a.count); }

/// Memory held by one place in the code, or in allocations of one size.
struct SiteChange {
  StackId stack_a = StackId::none, stack_b = StackId::none;  // none: absent, or recorded without a stack
  Bytes size;                                                // of each allocation, if these are compared by size
  Holding a, b;                                              // zero if it held nothing

  bool is_new() const { return a.count == 0; }
  bool vanished() const { return b.count == 0; }
};

/// One side of a comparison, for one heap.
struct SideState {
  HeapId heap = HeapId::none;  // none: the trace has no such heap
  std::int32_t device = 0;     // of it
  std::uint64_t events = 0;    // number of events so far
  Holding live;
  Phase phase = Phase::other;  // of the step, by the last allocation before the instant
  Steps steps{};               // of the whole trace
  double stacks_known = 0;     // the share of the live bytes whose stack is known
};

/// The highest live bytes during the same step of both.
struct StepPeaks {
  Bytes a, b;
};

/// The comparison of one heap.
struct HeapDifference {
  std::string name;
  std::int32_t device = 0;
  SideState a, b;
  std::vector<SiteChange> sites;  // changed sites: largest change first, in either direction; growth before loss
  bool is_by_size = false;        // one side does not know stacks, or neither: sites are sizes, and no place changed
  std::vector<CategoryChange> categories;
  bool recomputes_a = false, recomputes_b = false;  // gradient checkpointing
  std::optional<Phase> common_phase;                // of one side, and the other has it, too; if theirs differ
  std::vector<StepPeaks> steps;                     // as many as both sides have; none if theirs differ in kind
};

struct Side {
  const Analysis& analysis;
  Instant instant;
  std::string name{};  // of the recording, for errors
};

/// The devices of heaps that hold memory at some time.
struct Devices {
  std::set<std::int32_t> used_by_frameworks, all;
};

/// `histories`: of the trace's heaps, as heap_histories() has them.
Devices devices_of(const Tables& tables, std::span<const HeapHistory> histories);

/// Maps devices of A to devices of B.
using DeviceMap = std::map<std::int32_t, std::int32_t>;

/// Matches devices by role: two ranks of a job do the same on devices with different numbers. Devices in `given` are
/// mapped as it says. Otherwise, first among the devices that a framework uses and then among the others, the first of
/// A is matched with the first of B and so on, if their numbers are equal; if not, equal device numbers are matched
/// first, the rest in order.
DeviceMap match_devices(const Devices& a, const Devices& b, const DeviceMap& given);

/// Matches heaps by device (match_devices()), level and name, else by device and level; a heap that only one side has
/// is compared with nothing. Errors: an instant that a trace does not have; a device in `given` that does not exist.
Result<std::vector<HeapDifference>> difference(const Side& a, const Side& b, const DeviceMap& given = {});

}  // namespace memreel
