// Replays the program's requests against allocator policies: what would each have reserved?
//
// Inputs come from the program (requests, frees, empty_cache), decisions from the policy (rounding, placement,
// reserving, releasing, failing). prepare() resolves a trace once; any number of policies then run on it in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/engine/policy_entry.h"
#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/replay_result.h"
#include "analyzer/engine/run_options.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/result.h"

namespace memreel {

struct ReplayOptions {
  std::optional<DeviceModel> device;  // default: unlimited, or the capacity implied by the recorded failures
  bool find_min_capacity = false;
  std::size_t series_points = 1024;
  bool placement_metrics = false;   // also compute free_memory and address_stability
  unsigned threads = 0;             // 0: one per core
  const RowSource* rows = nullptr;  // of heaps with empty columns, see streamed_trace.h
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // called by any thread, after each run
};

/// Every policy, in the order of the documentation.
std::span<const PolicyInfo> policies();

/// Runs each spec on each heap. Results are ordered by spec, then heap. Errors: an unknown policy or parameter (the
/// message lists the known ones), or a sub-allocating policy on a driver-level heap of a program that already pools.
Result<std::vector<ReplayResult>> replay(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                         const ReplayOptions& options = {});

}  // namespace memreel
