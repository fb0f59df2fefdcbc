// How the answer of `memreel tune` is printed.
#pragma once

#include <filesystem>
#include <vector>

#include "analyzer/cli/json.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/steps.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/tune/tune.h"

namespace memreel::cli {

struct TuneReport {
  std::filesystem::path file;
  std::size_t top = 10;               // settings per table in text
  std::vector<HeapHistory> recorded;  // of the heaps that were replayed
  Steps steps;
  TorchRules rules;

  Bytes recorded_peak() const;  // of the worst device; 0 when the trace has no segments
};

void print_tune_text(const Trace& trace, const TuneResult& result, const TuneReport& report);
void print_tune_json(const Trace& trace, const TuneResult& result, const TuneReport& report);

}  // namespace memreel::cli
