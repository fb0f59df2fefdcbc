#include "viewer/panes/stack_labels.h"

#include "viewer/model/labels.h"

namespace memreel::viewer {

std::string maker_label(const Scene& scene, std::uint32_t allocation) {
  const StackId stack = scene.doc().stack_of(allocation);
  if (stack == StackId::none && scene.has_categories()) return no_stack_label(scene.classification->phase(allocation));
  return stack_label(scene.tables(), stack);
}

const std::string& StackLabels::of(const Scene& scene, StackId stack) {
  constexpr std::size_t most = 4096;
  if (tables_ != scene.document->tables || labels_.size() >= most) {
    labels_.clear();
    tables_ = scene.document->tables;
  }
  const auto [label, is_new] = labels_.try_emplace(stack);
  if (is_new) label->second = stack_label(*tables_, stack);
  return label->second;
}

const std::string& StackLabels::of_block(const Scene& scene, std::uint32_t allocation) {
  if (!scene.has_categories() || scene.colour() != MapColour::category)
    return of(scene, scene.doc().stack_of(allocation));
  words_ = words_of(scene.classification->category(allocation));
  return words_;
}

}  // namespace memreel::viewer
