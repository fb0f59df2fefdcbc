// What two recordings, or two instants of one, hold differently: growth by call stack, and the peaks of their steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/difference/instant.h"
#include "analyzer/difference/purposes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// Live memory of one kind: requested bytes.
struct Holding {
  Bytes bytes;
  std::uint64_t count = 0;

  friend bool operator==(const Holding&, const Holding&) = default;
};

/// Signed, for people: positive is more in B.
constexpr std::int64_t change(Bytes a, Bytes b) { return static_cast<std::int64_t>(b.count - a.count); }

/// What was held from one place in the code.
struct SiteChange {
  StackId stack_a = StackId::none, stack_b = StackId::none;  // none: not there, or recorded without a stack
  Holding a, b;                                              // zero where it held nothing

  bool is_new() const { return a.count == 0; }
  bool vanished() const { return b.count == 0; }
};

/// A side of a comparison, of one heap.
struct SideState {
  HeapId heap = HeapId::none;  // none: the trace has no such heap
  std::int32_t device = 0;     // of it
  std::uint64_t events = 0;    // that had happened
  Holding live;
};

/// The most that was live during the same step of both.
struct StepPeaks {
  Bytes a, b;
};

/// One heap, compared.
struct HeapDifference {
  std::string name;
  std::int32_t device = 0;
  SideState a, b;
  std::vector<SiteChange> sites;  // that changed: most bytes of change first, either way; growth before loss
  std::vector<CategoryChange> categories;
  bool recomputes_a = false, recomputes_b = false;  // gradient checkpointing
  std::string step_mark_a, step_mark_b;             // or, when steps were found without marks, where each begins
  std::vector<StepPeaks> steps;                     // as many as both have
};

struct Side {
  const Trace& trace;
  Instant instant;
};

/// Devices of A by what they are in B.
using DeviceMap = std::map<std::int32_t, std::int32_t>;

/// Which devices have the same role: two ranks of a job do the same on devices with different numbers. Those in `given`
/// are as it says. Else, first among the devices that a framework uses and then among the others, the first of A is the
/// first of B and so on, where there are as many; where there are not, those with the same number, then in order.
DeviceMap match_devices(const Trace& a, const Trace& b, const DeviceMap& given);

/// Heaps are matched by device (match_devices()), level and name, else by device and level; one that only one side has
/// is compared with nothing. Errors: an instant that a trace does not have; a device in `given` that it does not have.
Result<std::vector<HeapDifference>> difference(const Side& a, const Side& b, const DeviceMap& given = {});

}  // namespace memreel
