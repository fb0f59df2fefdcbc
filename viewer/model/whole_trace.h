// SPDX-License-Identifier: Apache-2.0
// A complete trace for the jobs that judge and replay it, and what they share.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "analyzer/analysis/category/classify.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::viewer {

// A trace completed as for judging (analyzer/replay/completed_trace.h), which is how it is shown.

/// The most events of a trace that is completed or judged. Longer ones are shown as recorded.
inline constexpr std::uint64_t longest_in_memory = 50'000'000;

/// For any thread.
class WholeTrace {
 public:
  /// `memory_limit`: for what is made of it.
  WholeTrace(std::shared_ptr<const Trace> trace, Bytes memory_limit)
      : trace_(std::move(trace)), memory_limit_(memory_limit) {}

  const Trace& trace() const { return *trace_; }
  /// What the program was doing; one copy while anybody has it.
  std::shared_ptr<const Activity> activity();
  /// Of all its allocations; one copy while anybody has it. The job that asks first classifies, others wait; if it is
  /// cancelled or fails, the next one does. Null if `cancelled`, which then stays so.
  std::shared_ptr<const Categories> categories(const std::function<bool()>& cancelled);
  /// Whether the limit has room for classifying it.
  Result<void> check_memory() const;

 private:
  std::shared_ptr<const Trace> trace_;
  Bytes memory_limit_;
  std::mutex following_;  // held while the activity is found; protects it
  std::weak_ptr<const Activity> lent_activity_;
  std::mutex classifying_;  // held while it is classified; protects the other
  std::weak_ptr<const Categories> lent_categories_;
};

}  // namespace memreel::viewer
