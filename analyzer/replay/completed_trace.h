// What of a recorded trace is judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/history/levels.h"
#include "analyzer/replay/torch_calls.h"
#include "formats/model/trace.h"

namespace memreel {

/// Makes a trace what every analysis judges, and the viewer shows: its levels are tied (analyzer/history/levels.h), so
/// that nothing is counted twice, and it has the calls that PyTorch's allocator leaves no record of (torch_calls.h).
/// Returns how much that changed; 0: nothing.
std::size_t complete_trace(Trace& trace);

/// Whether complete_trace() may change a trace with these.
bool may_be_completed(const Header& header, const Tables& tables);

/// The same block by block, for a trace that is read more than once. Memory: segments, and what the driver gave.
class CompletedStream {
 public:
  /// `tables` may grow, and must outlive the first pass.
  explicit CompletedStream(const Tables& tables) : ties_(tables) {}

  /// The first pass: the next events.
  void see(const EventColumns& events);
  /// Ends it; `tables` are complete now. False: there is nothing to change, and no second pass.
  bool end_first_pass(const Header& header, const Tables& tables);
  /// The second pass: the same events once more.
  void see_again(const EventColumns& events);
  void end_second_pass();

  /// With the origins of the events that changed; after the second pass.
  const Tables& tables() const { return tables_; }

  /// Says what the trace's events are, from its beginning; after the second pass, as often as it takes.
  class Pass {
   public:
    explicit Pass(const CompletedStream& subject) : subject_(&subject) {}
    /// What the next events are. Valid until the next call.
    const EventColumns& next(const EventColumns& events);

   private:
    const CompletedStream* subject_;
    EventColumns out_;
    std::uint32_t seen_ = 0;  // of the trace
    std::uint32_t tied_ = 0;  // those left once the levels are tied
    std::size_t call_ = 0;    // the next
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
