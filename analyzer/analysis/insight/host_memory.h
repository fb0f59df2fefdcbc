// SPDX-License-Identifier: Apache-2.0
// What a program has of the host's memory: pinned, and resident in all.
#pragma once

#include <functional>
#include <span>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/rounds.h"
#include "formats/model/trace.h"

namespace memreel {

/// The resident set of the process (VmRSS), by samples.
struct ResidentSet {
  Bytes first, peak, last;
  /// By how much it grows in each step, once the program has warmed up; 0: not steadily, or there are too few steps.
  double growth_bytes_per_step = 0;
  Bytes grown;                   // in the steps that this is known from, the second half; 0 likewise
  std::uint32_t from_step = 0;   // the first of them, from 1 on
  std::uint32_t until_step = 0;  // the last
};

struct HostMemory {
  /// Page-locked: the driver's own calls, if they are recorded; else what PyTorch's allocator holds or, in recordings
  /// without segments, has given out.
  Bytes pinned_peak, pinned_end;
  std::optional<ResidentSet> resident;  // none: not sampled, as in snapshots
};

/// None if the trace tells nothing of the host's memory. `heaps`: all of the trace; `rounds`: of the program's
/// loop, asked for only if the resident set was sampled.
///
/// A resident set grows steadily if its least value in each quarter of the steps' second half exceeds that in the
/// quarter before, and all of them together by 16 MiB or more: what a collector of garbage frees again is no growth.
std::optional<HostMemory> host_memory(const Trace& trace, std::span<const HeapHistory> heaps,
                                      const std::function<Rounds()>& rounds);

}  // namespace memreel
