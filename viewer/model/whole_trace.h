// SPDX-License-Identifier: Apache-2.0
// The trace that a document shows, in the columns that the analyzer reads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "analyzer/analysis/category/classify.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::viewer {

// A trace completed as for judging (analyzer/replay/completed_trace.h), which is how it is shown.

/// The most events of a trace that is held as a whole, to be completed, judged or replayed. Longer ones are shown as
/// recorded.
inline constexpr std::uint64_t longest_in_memory = 50'000'000;

/// A whole trace, for jobs that read it one after another or at once: in memory from the start or loaded by the first,
/// until it is released and the last of them ends. For any thread.
class WholeTrace {
 public:
  using Load = std::function<Result<Trace>()>;

  /// `load` returns the trace as it is shown. `memory_limit`: for what is made of it. `trace`: what `load` would
  /// return, if that is known.
  WholeTrace(Load load, Bytes memory_limit, std::optional<Trace> trace = {})
      : load_(std::move(load)), memory_limit_(memory_limit) {
    if (trace) held_ = std::make_shared<const Result<Trace>>(*std::move(trace));
  }

  /// Never null. Fails as `load` does. Waits while another job loads it.
  std::shared_ptr<const Result<Trace>> get();
  /// Of all allocations of `trace`, which get() returned; one copy while anybody has it. The job that asks first
  /// classifies, others wait; if it is cancelled or fails, the next one does. Null if `cancelled`, which then stays so.
  std::shared_ptr<const Categories> categories(const Trace& trace, const std::function<bool()>& cancelled);
  /// Whether the limit has room for classifying it.
  Result<void> check_memory(const Trace& trace) const;
  /// Leaves it to the jobs that have it. A later one loads it again.
  void release();

 private:
  std::shared_ptr<const Result<Trace>> known();

  Load load_;
  Bytes memory_limit_;
  std::mutex loading_;      // held while it is loaded
  std::mutex classifying_;  // held while it is classified; protects lent_categories_
  std::mutex mutex_;        // protects the others
  std::shared_ptr<const Result<Trace>> held_;
  std::weak_ptr<const Result<Trace>> lent_;
  std::weak_ptr<const Categories> lent_categories_;
};

}  // namespace memreel::viewer
