// Replays a recorded history with the device answering as recorded, and compares every address and every segment.
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

inline constexpr std::size_t most_free_blocks = 16;  // listed by a divergence

struct Divergence {
  std::uint64_t event = 0;               // index in the trace
  std::string expected;                  // the recording, in one line
  std::string happened;                  // what the policy did
  std::vector<std::string> free_blocks;  // of the policy near that place, one line each
};

struct Verification {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  PolicySpec policy;
  std::uint64_t allocations = 0, address_matches = 0;
  std::uint64_t segment_events = 0, segment_matches = 0;
  Bytes peak_reserved, recorded_peak_reserved;
  std::optional<Divergence> first_divergence;
  std::string rules;  // whose rules were used, and how it is known: "PyTorch 2.12, as stated by the snapshot"
  std::string note;   // why exactness can't be claimed ("history began late"); else empty

  bool exact() const {
    return note.empty() && !first_divergence && address_matches == allocations && segment_matches == segment_events;
  }
};

/// What a history is compared with.
struct VerifyOptions {
  std::string torch_release;         // "2.12"; empty: as stated by the history
  std::optional<PolicySpec> policy;  // instead of the recorded one
};

/// Verifies every framework-level heap with the policy and settings it was recorded under, or with those of `options`.
/// Errors: no heap of the trace records an allocator whose rules memreel knows; an unknown PyTorch release. A PyTorch
/// history that does not state its release is compared with the rules of 2.11, and if it differs, with the others: the
/// rules that reproduce all of it apply.
Result<std::vector<Verification>> verify(const Trace& trace, const VerifyOptions& options = {});

}  // namespace memreel
