// SPDX-License-Identifier: Apache-2.0
// Prepares a recorded trace for analysis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/history/levels.h"
#include "analyzer/replay/torch_calls.h"
#include "formats/model/trace.h"

namespace memreel {

/// Completes a trace for all analyses and the viewer: links its levels (analyzer/history/levels.h), so that nothing is
/// counted twice, and adds the calls that PyTorch's allocator does not record (torch_calls.h) and the initial heaps of
/// a flight recorder's trace (restated_heaps.h). Returns the number of changed events; 0: none.
std::size_t complete_trace(Trace& trace);

/// Whether complete_trace() may change a trace with this header and these tables.
bool may_be_completed(const Header& header, const Tables& tables);

/// The same block by block, for a trace that is read more than once. Memory: segments, and the driver's allocations.
class CompletedStream {
 public:
  /// `tables` may grow, and must outlive the first pass.
  explicit CompletedStream(const Tables& tables) : ties_(tables) {}

  /// The first pass: processes the next events.
  void see(const EventColumns& events);
  /// Ends the first pass; `tables` must be complete. Returns false if there is nothing to change, so no second pass is
  /// needed.
  bool end_first_pass(const Header& header, const Tables& tables);
  /// The second pass: processes the same events again.
  void see_again(const EventColumns& events);
  void end_second_pass();

  /// Includes the origins of changed events; valid after the second pass.
  const Tables& tables() const { return tables_; }

  /// Yields the trace's final events from the beginning; may be created repeatedly after the second pass.
  class Pass {
   public:
    explicit Pass(const CompletedStream& subject) : subject_(&subject) {}
    /// The final form of the next events. Valid until the next call.
    const EventColumns& next(const EventColumns& events);

   private:
    const CompletedStream* subject_;
    EventColumns out_;
    std::uint32_t seen_ = 0;  // number of events of the trace
    std::uint32_t tied_ = 0;  // number of events left after linking levels
    std::size_t call_ = 0;    // index of the next
  };

 private:
  LevelTies ties_;
  TiedLevels tied_levels_;
  Tables tables_;
  std::optional<TorchCalls> finder_;
  std::vector<TorchCall> calls_;
  std::uint32_t seen_ = 0, tied_ = 0;
};

}  // namespace memreel
