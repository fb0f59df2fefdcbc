// SPDX-License-Identifier: Apache-2.0
// A process's requests to its allocator as numbers that can be compared across a job.
//
// Replicas of one model make the same requests at other addresses and times, and free the same blocks between two
// requests in another order, because tables of the framework are keyed by addresses. They have equal hashes: over
// sizes, streams, pools, and frees by the ordinal of their allocation, with the frees between two requests taken as a
// set. What is older than a late recording is a set too: it stands at the beginning in the order of its addresses.
// Devices, streams and pools are numbered by their first use.
#pragma once

#include <functional>
#include <span>
#include <tuple>

#include "analyzer/replay/engine/prepared.h"
#include "formats/wire/message.h"

namespace memreel {

/// Sixteen consecutive requests, with the frees between them.
struct RequestChunk {
  std::uint64_t hash = 0;
  std::uint64_t times = 0;  // how often the program makes them

  friend bool operator==(const RequestChunk&, const RequestChunk&) = default;
};
/// The numbers are those of RankSummary.
template <>
struct wire::MembersOf<RequestChunk> {
  static constexpr std::tuple all{fixed(39, &RequestChunk::hash), member(40, &RequestChunk::times)};
};

struct RequestHash {
  static constexpr std::size_t most_chunks = 1024;
  static constexpr std::size_t chunk_length = 16;

  std::uint64_t whole = 0;           // of all requests in order
  std::uint64_t untimed = 0;         // of the same, with all frees as one set; 0: unknown
  std::uint64_t requests = 0;        // allocations and failed requests
  std::vector<RequestChunk> sketch;  // by hash: the smallest `most_chunks` of them, a sample common to all ranks
  friend bool operator==(const RequestHash&, const RequestHash&) = default;
};
template <>
struct wire::MembersOf<RequestHash> {
  static constexpr std::tuple all{fixed(37, &RequestHash::whole), fixed(52, &RequestHash::untimed),
                                  member(38, &RequestHash::requests), columns(&RequestHash::sketch)};
};

/// `heaps`: the judged heaps of one process. `is_older(event)`: whether that request was made before a late recording
/// began.
RequestHash hash_requests(std::span<const Prepared> heaps, const std::function<bool(std::uint32_t)>& is_older = {});

/// How similar the requests of two processes are, 0 to 1: the weighted Jaccard index of their sketches. Chunks overlap,
/// so one additional request changes sixteen of them and not all that follow.
double similarity(std::span<const RequestChunk> a, std::span<const RequestChunk> b);

}  // namespace memreel
