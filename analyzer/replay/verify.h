// SPDX-License-Identifier: Apache-2.0
// Replays a recorded history with the device answering as recorded, and compares every address and every segment.
#pragma once

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
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

// Verification of BFC allocators (TensorFlow, XLA, JAX) whose history an XPlane profile recorded.
//
// The device answers with the regions deduced by the importer (formats/import/xplane/regions.h): a request for a region
// gets its address, a request beyond them was refused. In addition to addresses and regions, the bytes in use are
// compared after every event, which shows the size handed out for each request.
//
// A profile states neither whether the pool grew, which the regions show, nor whether it was partitioned: where that is
// possible, both are tried.

/// Whether a heap belongs to such an allocator.
bool is_bfc(const Prepared& heap);

Verification verify_bfc(const Trace& trace, const Prepared& heap);

// Verification of any placing policy against a history that records its pool's memory: pool.jsonl, or any other for
// which a policy is named. The simulated device grants the recorded addresses (device.h).

/// The policy named by a heap's settings: it is their "kind", or the only one that shares the most parts with it, as
/// cupy.pool does with "cupy" and rmm.pool with "rmm.pool.max". Settings named like its parameters set them. A missing
/// initial size is that of the segment before the first request. None: they name no policy.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const Prepared& heap);

/// The setting "limit" is the device's capacity. What `given` omits but the history shows is found by trying: the
/// maximum of RMM's pool, its bins, and the order in which it visits its streams if these are at most seven. Errors: as
/// bind_policy(); a policy that does not place.
Result<Verification> verify_placement(const Trace& trace, const Prepared& heap, const PolicySpec& given);

}  // namespace memreel
