// The forward-pass operator behind an allocation in the backward pass.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/writer/trace_output.h"

namespace memreel::agent {

/// The frame between a backward-pass stack and the stack of the forward operator.
inline constexpr std::string_view backward_frame = "[backward of]";

/// Remembers the latest operators of the forward pass: 2^16 sequence numbers. The few whose numbers came from two
/// threads are left out.
class ForwardStacks {
 public:
  explicit ForwardStacks(TraceOutput& writer) : writer_(&writer), operators_(kept) {}

  /// `thread` allocated in the forward pass after making the node `sequence`. Its first stack with that number is the
  /// operator's; later ones may be anything.
  void note(std::uint32_t sequence, std::uint32_t thread, StackId stack);

  /// `stack` with the stack of the operator that made the node `sequence` as its caller; `stack` itself if that is
  /// unknown.
  StackId linked(std::uint32_t sequence, StackId stack);

 private:
  static constexpr std::size_t kept = std::size_t{1} << 16U;
  struct Operator {
    std::uint32_t sequence = 0, thread = 0;
    StackId stack = StackId::none;
  };

  TraceOutput* writer_;
  std::vector<Operator> operators_;                        // by sequence number modulo `kept`
  std::map<std::pair<StackId, StackId>, StackId> linked_;  // by both stacks
};

}  // namespace memreel::agent
