// Stacks that a person calls the same: one name, one colour, one entry of a legend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/model/tables.h"

namespace memreel::viewer {

/// By StackId: the first stack that has the same label. Stacks that came later than this was made stand for themselves.
using SiteTable = std::vector<StackId>;

/// Finds out while a trace is read.
class Sites {
 public:
  /// Looks at the stacks that are new. Ids stay what they were.
  std::shared_ptr<const SiteTable> extend(const Tables& tables);

 private:
  SiteTable of_stack_;
  std::vector<std::uint32_t> depth_;
  std::uint64_t frames_ = 0;  // that were looked at
  std::unordered_map<std::string, StackId> by_label_;
};

}  // namespace memreel::viewer
