#include "collector/python/frame_chain.h"

#include <bit>

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

/// The one that was given before, unless another chain took its place since.
[[gnu::hot]] std::uint64_t FrameChain::number_of(Meaning meaning, std::uint64_t callers) {
  if (meaning.key == stacks::FrameKey{} && !meaning.is_entry) return callers;
  // Of a Python frame's key the uppermost bit is always set, so it has room for another meaning.
  const std::uint64_t frame = std::rotl(meaning.key.bits, 1) ^ (meaning.is_entry ? 1U : 0U);
  for (const Numbered& known : recently_)
    if (known.callers == callers && known.frame == frame && known.number != 0) return known.number;
  const std::uint64_t mixed = (frame * odd ^ callers) * odd;
  Numbered& place = numbered_[mixed >> 32U & (numbered_.size() - 1)];
  if (place.callers != callers || place.frame != frame || place.number == 0) place = {callers, frame, ++last_number_};
  recently_ = {place, recently_[0]};
  return place.number;
}

}  // namespace memreel::python
