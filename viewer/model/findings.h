// The analyzer's verdicts on a whole trace: leaks, fragmentation, failed requests, and their summary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/insight/fragmentation.h"
#include "analyzer/insight/leaks.h"
#include "analyzer/insight/out_of_memory.h"
#include "analyzer/insight/remedies.h"
#include "analyzer/verdict/verdict.h"
#include "viewer/model/classification.h"

namespace memreel::viewer {

struct Findings {
  LeakReport leaks;
  std::vector<Fragmentation> fragmentation;
  Remedies remedies;
  OutOfMemories ooms;
  Verdict verdict;  // as `memreel report` opens
  /// The leak verdict of each kept allocation, by number; none for freed ones.
  std::vector<std::optional<LeakVerdict>> of_allocation;
  std::string problem;  // why there are none; empty: no problem
};

/// Reads the whole trace. `known`: the classification, which tells who holds the peak; may be null. None when
/// cancelled.
std::optional<Findings> judge_file(const std::shared_ptr<ByteFile>& file, Bytes memory_limit,
                                   const std::shared_ptr<const Classification>& known, const Progress& progress);

}  // namespace memreel::viewer
