// Replays a recorded history with the device answering as it did, and compares every address and every segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

inline constexpr std::size_t most_free_blocks = 16;  // that a divergence lists

struct Divergence {
  std::uint64_t event = 0;               // index in the trace
  std::string expected;                  // what the recording says, in one line
  std::string happened;                  // what the policy did
  std::vector<std::string> free_blocks;  // of the policy around the place, one line each
};

struct Verification {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  PolicySpec policy;
  std::uint64_t allocations = 0, address_matches = 0;
  std::uint64_t segment_events = 0, segment_matches = 0;
  Bytes peak_reserved, recorded_peak_reserved;
  std::optional<Divergence> first_divergence;
  std::string rules;  // whose rules these are, and how that is known: "PyTorch 2.12, as the snapshot tells"
  std::string note;   // why exactness can't be claimed at all ("history began late"); else empty

  bool exact() const {
    return note.empty() && !first_divergence && address_matches == allocations && segment_matches == segment_events;
  }
};

/// What a history is held against.
struct VerifyOptions {
  std::string torch_release;         // "2.12"; empty: what the history tells
  std::optional<PolicySpec> policy;  // instead of what was recorded
};

/// Verifies every framework-level heap with the policy and settings it was recorded under, or with those of `options`.
/// Errors: no heap of the trace records an allocator that memreel knows the rules of; a release of PyTorch that there
/// is none of. A history of PyTorch that does not tell its release is held against the rules of 2.11, and where it
/// differs against the others: those that repeat all of it are its.
Result<std::vector<Verification>> verify(const Trace& trace, const VerifyOptions& options = {});

}  // namespace memreel
