// A cache of the labels of recently shown stacks: making one takes time proportional to the stack's depth.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// The maker of an allocation: the label of its stack or, without one, the phase in which it was made, if known.
std::string maker_label(const Scene& scene, std::uint32_t allocation);

class StackLabels {
 public:
  /// stack_label(); valid until the next call.
  const std::string& of(const Scene& scene, StackId stack);
  /// The text on a block besides its size: its category if blocks are coloured by category, else its maker.
  const std::string& of_block(const Scene& scene, std::uint32_t allocation);

 private:
  std::shared_ptr<const Tables> tables_;  // the tables that the labels belong to
  std::unordered_map<StackId, std::string> labels_;
  std::string words_;
};

}  // namespace memreel::viewer
