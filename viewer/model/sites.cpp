#include "viewer/model/sites.h"

#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

/// Stacks of real programs have far fewer frames in total; stacks that recurse a million deep are each their own site.
constexpr std::uint64_t most_frames = 2'000'000;

}  // namespace

std::shared_ptr<const SiteTable> Sites::extend(const Tables& tables) {
  if (of_stack_.empty()) {
    of_stack_.push_back(StackId::none);
    depth_.push_back(0);
  }
  for (auto s = static_cast<std::uint32_t>(of_stack_.size()); s < tables.stacks.size(); ++s) {
    depth_.push_back(depth_[index(tables.stacks[s].caller)] + 1);
    StackId site{s};
    if (frames_ + depth_.back() <= most_frames) {
      frames_ += depth_.back();
      site = by_label_.try_emplace(stack_label(tables, site), site).first->second;
    }
    of_stack_.push_back(site);
  }
  return std::make_shared<const SiteTable>(of_stack_);
}

}  // namespace memreel::viewer
