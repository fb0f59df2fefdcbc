// SPDX-License-Identifier: Apache-2.0
// Summaries of ranks, written by hand.
#pragma once

#include "analyzer/fleet/rank_summary.h"

namespace memreel {

/// A rank that makes the requests of `program` and peaks at `gibibytes` reserved.
inline RankSummary rank_of(std::uint32_t rank, std::uint64_t program, Bytes reserved) {
  RankSummary s{.file = "/job/rank" + std::to_string(rank) + ".reel", .bytes = 1000, .checksum = rank};
  s.identity.rank = rank;
  s.has_memory = true;
  s.begin = Nanoseconds{1000};
  s.end = Nanoseconds{2000};
  s.allocations = 100;
  s.peak_live = s.peak_allocated = s.peak_reserved = reserved;
  s.reserved = s.allocated = {reserved};
  s.requests = {.whole = program, .requests = 100, .sketch = {{program, 100}}};
  return s;
}

}  // namespace memreel
