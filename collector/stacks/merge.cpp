#include "collector/stacks/merge.h"

#include <algorithm>

namespace memreel::stacks {

std::size_t merge(std::span<const FrameKey> native, std::span<const PythonFrame> python,
                  std::span<const AddressRange> evaluator, AddressRange plumbing, std::span<FrameKey> merged) {
  std::size_t count = 0, next = 0;
  const auto put = [&](FrameKey frame) {
    if (count < merged.size()) merged[count++] = frame;
  };
  for (const FrameKey frame : native) {
    const bool evaluates = std::any_of(evaluator.begin(), evaluator.end(),
                                       [&](const AddressRange& range) { return range.contains(frame.code_address()); });
    if (!evaluates || next == python.size()) {
      if (!plumbing.contains(frame.code_address())) put(frame);
      continue;
    }
    while (next < python.size()) {
      put(python[next].key);
      if (python[next++].is_entry) break;
    }
  }
  for (; next < python.size(); ++next) put(python[next].key);
  return count;
}

}  // namespace memreel::stacks
