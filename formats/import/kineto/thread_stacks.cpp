#include "formats/import/kineto/thread_stacks.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "formats/model/limits.h"

namespace memreel::kineto {
namespace {

/// "torch/nn/modules/module.py(1739): _call_impl" has a file and a line. "nn.Module: GPT2MLP_3" is a call of GPT2MLP
/// number 3, counted from 0. Built-in functions and operators have only a name.
Frame frame_from(std::string_view name, TraceWriter& writer) {
  constexpr std::string_view module = "nn.Module: ";
  if (name.starts_with(module)) {
    const std::string_view called = name.substr(module.size());
    const std::size_t number = called.rfind('_');
    std::string instance(called);
    if (number != std::string_view::npos) instance[number] = ' ';
    return {.function = writer.intern(name), .instance = writer.intern(instance)};
  }
  const std::size_t end = name.find("): ");
  const std::size_t begin = end == std::string_view::npos ? end : name.rfind('(', end);
  if (begin == std::string_view::npos || begin == 0) return {.function = writer.intern(name)};
  std::uint32_t line = 0;
  const auto [after, error] = std::from_chars(name.data() + begin + 1, name.data() + end, line);
  if (error != std::errc{} || after != name.data() + end) return {.function = writer.intern(name)};
  return {.function = writer.intern(name.substr(end + 3)), .file = writer.intern(name.substr(0, begin)), .line = line};
}

}  // namespace

ThreadStacks::ThreadStacks(const std::vector<std::string>& names, TraceWriter& writer)
    : names_(names), writer_(writer), frames_(names.size()) {}

void ThreadStacks::enter(const Slice& slice) {
  std::vector<Open>& open = open_[slice.tid];
  while (!open.empty() && open.back().end_ns <= slice.begin_ns) open.pop_back();
  if (open.size() >= max_stack_depth) return;
  const std::int64_t end = open.empty() ? slice.end_ns : std::min(slice.end_ns, open.back().end_ns);
  open.push_back({.end_ns = end, .name = slice.name});
}

StackId ThreadStacks::at(std::uint64_t tid, std::int64_t time_ns) {
  const auto found = open_.find(tid);
  if (found == open_.end()) return StackId::none;
  std::vector<Open>& open = found->second;
  while (!open.empty() && open.back().end_ns < time_ns) open.pop_back();
  std::size_t made = open.size();
  while (made > 0 && open[made - 1].stack == StackId::none) --made;
  StackId stack = made == 0 ? StackId::none : open[made - 1].stack;
  for (; made < open.size(); ++made)
    stack = open[made].stack = writer_.intern(Stack{.frame = frame_of(open[made].name), .caller = stack});
  return stack;
}

FrameId ThreadStacks::frame_of(std::uint32_t name) {
  if (frames_[name] == FrameId::none) frames_[name] = writer_.intern(frame_from(names_[name], writer_));
  return frames_[name];
}

}  // namespace memreel::kineto
