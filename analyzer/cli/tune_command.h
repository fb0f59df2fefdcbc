// SPDX-License-Identifier: Apache-2.0
// Output of `memreel tune`.
#pragma once

#include <filesystem>
#include <span>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/cli/output.h"
#include "analyzer/replay/steps.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/replay/tune/tune.h"

namespace memreel::cli {

struct TuneReport {
  std::filesystem::path file;
  std::size_t top = 10;               // settings per table in text
  double seconds = 0;                 // after which no replay began
  std::vector<HeapHistory> recorded;  // of the replayed heaps
  Steps steps;                        // Analysis::steps()
  TorchRules rules;
  std::vector<std::string> ignored;  // ignored_settings() of the trace
  Bytes released;                    // saved_by_release() of the worst device, where its replay misses the peak
  bool is_only_bounded = false;      // the device's capacity: by requests that it refused
  std::optional<Bytes> beside;       // the most that others hold beside what is tuned, if a capacity is given

  Bytes recorded_peak() const;  // of the worst device; 0 if the trace has no segments
};

/// One of a process's allocators: that of its devices or, after it, that of pinned host memory.
struct Tuned {
  TuneResult result;
  TuneReport report;
};

void print_tune_text(const Trace& trace, std::span<const Tuned> tuned);
void print_tune_json(const Trace& trace, std::span<const Tuned> tuned);

}  // namespace memreel::cli
