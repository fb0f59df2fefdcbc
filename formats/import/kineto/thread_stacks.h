// What was running on each thread of a profile at an instant.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/import/kineto/profile.h"
#include "formats/writer/trace_writer.h"

namespace memreel::kineto {

/// Slices are entered in the order in which they begin; times never go back.
class ThreadStacks {
 public:
  ThreadStacks(const std::vector<std::string>& names, TraceWriter& writer);

  /// One that outlasts the slice around it ends with that one: clocks differ by some nanoseconds.
  void enter(const Slice& slice);
  /// Python's functions and operators, innermost first; what is deeper than a stack may be is left out.
  StackId at(std::uint64_t tid, std::int64_t time_ns);

 private:
  struct Open {
    std::int64_t end_ns = 0;
    std::uint32_t name = 0;
    StackId stack = StackId::none;  // none: not asked for yet
  };

  FrameId frame_of(std::uint32_t name);

  const std::vector<std::string>& names_;
  TraceWriter& writer_;
  std::vector<FrameId> frames_;  // of names; none: not made yet
  std::unordered_map<std::uint64_t, std::vector<Open>> open_;
};

}  // namespace memreel::kineto
