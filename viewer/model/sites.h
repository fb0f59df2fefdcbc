// Groups stacks that have the same name: one colour, one legend entry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/model/tables.h"

namespace memreel::viewer {

/// By StackId: the first stack with the same label. Stacks added after this was built stand for themselves.
using SiteTable = std::vector<StackId>;

/// Builds the groups while a trace is read.
class Sites {
 public:
  /// Adds the new stacks. Existing ids don't change.
  std::shared_ptr<const SiteTable> extend(const Tables& tables);

 private:
  SiteTable of_stack_;
  std::vector<std::uint32_t> depth_;
  std::uint64_t frames_ = 0;  // frames processed so far
  std::unordered_map<std::string, StackId> by_label_;
};

}  // namespace memreel::viewer
