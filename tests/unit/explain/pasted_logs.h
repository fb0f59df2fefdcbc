// SPDX-License-Identifier: Apache-2.0
// Logs for tests, and the failures found in them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analysis/explain/failure.h"
#include "analyzer/analysis/explain/log_scan.h"

namespace memreel::explain {

inline std::vector<Failure> failures_in(std::string_view log, std::size_t piece = std::size_t{1} << 20U) {
  LogScan scan;
  for (std::size_t at = 0; at < log.size(); at += piece) EXPECT_TRUE(scan.take(log.substr(at, piece)));
  return scan.finish().failures;
}

inline Failure only_failure(std::string_view log) {
  const std::vector<Failure> failures = failures_in(log);
  EXPECT_EQ(failures.size(), 1U) << log;
  return failures.empty() ? Failure{} : failures.front();
}

inline std::string kind_in(std::string_view log) {
  const std::vector<Failure> failures = failures_in(log);
  if (failures.size() != 1) return std::to_string(failures.size()) + " failures";
  return std::string(text_of(failures.front().kind).name);
}

inline std::string torch_text(std::string_view requested, std::string_view capacity, std::string_view free,
                              std::string_view rest) {
  return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + std::string(requested) +
         ". GPU 0 has a total capacity of " + std::string(capacity) + " of which " + std::string(free) + " is free. " +
         std::string(rest) +
         " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
         "avoid "
         "fragmentation.  See documentation for Memory Management\n";
}

inline std::string old_text(std::string_view requested, std::string_view rest) {
  return "RuntimeError: CUDA out of memory. Tried to allocate " + std::string(requested) + " (GPU 0; " +
         std::string(rest) + ")\n";
}

}  // namespace memreel::explain
