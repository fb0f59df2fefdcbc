// What a process asked its allocator for, as numbers that can be compared over a job.
//
// Replicas of one model make the same requests at other addresses and times, and free the same blocks between two
// requests in another order, because tables of the framework are keyed by addresses. A hash over sizes, streams, pools,
// and frees by the ordinal of their allocation, with the frees between two requests taken as a set, is equal for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/engine/prepared.h"

namespace memreel {

/// Sixteen consecutive requests, with what is freed between them.
struct RequestChunk {
  std::uint64_t hash = 0;
  std::uint64_t times = 0;  // that the program makes them

  friend bool operator==(const RequestChunk&, const RequestChunk&) = default;
};

struct RequestHash {
  static constexpr std::size_t most_chunks = 1024;
  static constexpr std::size_t chunk_length = 16;

  std::uint64_t whole = 0;           // of all requests in order
  std::uint64_t requests = 0;        // allocations, and requests that failed
  std::vector<RequestChunk> sketch;  // by hash: the smallest `most_chunks` of them, a sample that two ranks share
  friend bool operator==(const RequestHash&, const RequestHash&) = default;
};

/// `heaps`: those of one process that are judged.
RequestHash hash_requests(std::span<const Prepared> heaps);

/// How much of what two processes ask for is the same, 0 to 1: the weighted Jaccard index of their sketches. Chunks
/// overlap, so that one more request changes sixteen of them and not all that follow.
double similarity(std::span<const RequestChunk> a, std::span<const RequestChunk> b);

}  // namespace memreel
