#include "collector/python/frame_chain.h"

namespace memreel::python {

std::size_t FrameChain::frames(std::span<stacks::PythonFrame> frames) const {
  std::size_t count = 0;
  for (std::size_t i = count_; i-- > 0;) {
    const auto [key, is_entry] = outwards_[i].meaning;
    if (key != stacks::FrameKey{}) {
      if (count == frames.size()) break;
      frames[count++] = {key, false};
    }
    if (is_entry && count > 0) frames[count - 1].is_entry = true;
  }
  return count;
}

}  // namespace memreel::python
