// Labels of the stacks that were on screen lately: making one takes as long as its stack is deep.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// Who made an allocation: the label of its stack, without one the phase that it was made in, where that is known.
std::string maker_label(const Scene& scene, std::uint32_t allocation);

class StackLabels {
 public:
  /// stack_label(); valid until the next call.
  const std::string& of(const Scene& scene, StackId stack);
  /// What a block has written on it besides its size: its category where colours are those, else who made it.
  const std::string& of_block(const Scene& scene, std::uint32_t allocation);

 private:
  std::shared_ptr<const Tables> tables_;  // what the labels are of
  std::unordered_map<StackId, std::string> labels_;
  std::string words_;
};

}  // namespace memreel::viewer
