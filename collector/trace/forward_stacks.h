// Which operator of the forward pass an allocation of the backward pass comes from.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/writer/trace_output.h"

namespace memreel::agent {

/// The frame between a stack of the backward pass and that of the operator which it is the backward of.
inline constexpr std::string_view backward_frame = "[backward of]";

/// Remembers the latest operators of the forward pass: 2^16 sequence numbers. Of a few, whose numbers came from two
/// threads, nothing is said.
class ForwardStacks {
 public:
  explicit ForwardStacks(TraceOutput& writer) : writer_(&writer), operators_(kept) {}

  /// `thread` allocated in the forward pass after it had made the node `sequence`. Its first stack with that number is
  /// the operator's; what follows may be anything.
  void note(std::uint32_t sequence, std::uint32_t thread, StackId stack);

  /// `stack`, with the stack of the operator that made the node `sequence` as what it was called from. `stack` itself
  /// when that is not known.
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
