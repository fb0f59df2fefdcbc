// What was running on each thread of a profile at an instant.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/import/kineto/profile.h"
#include "formats/writer/trace_writer.h"

namespace memreel::kineto {

/// Slices must be added in order of their begin; times never decrease.
class ThreadStacks {
 public:
  ThreadStacks(const std::vector<std::string>& names, TraceWriter& writer);

  /// A slice that outlasts its enclosing slice ends with it: clocks differ by some nanoseconds.
  void enter(const Slice& slice);
  /// Python functions and operators, innermost first; frames beyond the maximum stack depth are left out.
  StackId at(std::uint64_t tid, std::int64_t time_ns);

 private:
  struct Open {
    std::int64_t end_ns = 0;
    std::uint32_t name = 0;
    StackId stack = StackId::none;  // none: not yet requested
  };

  FrameId frame_of(std::uint32_t name);

  const std::vector<std::string>& names_;
  TraceWriter& writer_;
  std::vector<FrameId> frames_;  // by name; none: not yet created
  std::unordered_map<std::uint64_t, std::vector<Open>> open_;
};

}  // namespace memreel::kineto
