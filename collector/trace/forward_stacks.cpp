#include "collector/trace/forward_stacks.h"

namespace memreel::agent {

void ForwardStacks::note(std::uint32_t sequence, std::uint32_t thread, StackId stack) {
  if (sequence == 0 || stack == StackId::none) return;
  Operator& known = operators_[sequence % kept];
  if (known.sequence != sequence)
    known = {sequence, thread, stack};
  else if (known.thread != thread)
    known.stack = StackId::none;
}

StackId ForwardStacks::linked(std::uint32_t sequence, StackId stack) {
  const Operator& forward = operators_[sequence % kept];
  if (sequence == 0 || forward.sequence != sequence || forward.stack == StackId::none) return stack;
  const auto [found, is_new] = linked_.try_emplace({stack, forward.stack}, StackId::none);
  if (!is_new) return found->second;
  std::vector<FrameId> frames;
  for (StackId at = stack; at != StackId::none; at = writer_->tables()[at].caller)
    frames.push_back(writer_->tables()[at].frame);
  const FrameId between = writer_->intern(Frame{.function = writer_->intern(backward_frame)});
  StackId row = writer_->intern(Stack{.frame = between, .caller = forward.stack});
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    row = writer_->intern(Stack{.frame = *frame, .caller = row});
  found->second = row;
  return row;
}

}  // namespace memreel::agent
