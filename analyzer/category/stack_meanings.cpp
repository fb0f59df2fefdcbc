#include "analyzer/category/stack_meanings.h"

#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

/// Separates a stack of the backward pass from that of the corresponding forward operator
/// (collector/agent/forward_stacks.h).
constexpr std::string_view backward_frame = "[backward of]";

/// The properties of a frame, independent of its callers.
struct FrameMeaning {
  const FrameRule* rule = nullptr;
  FrameKind kind = FrameKind::unknown;
  bool starts_python = false;
  bool backward_of = false;
  bool preexisting = false;
};

std::vector<FrameMeaning> frame_meanings(const Tables& tables) {
  std::vector<FrameMeaning> meanings;
  meanings.reserve(tables.frames.size());
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
    const FrameText frame = frame_text(tables, FrameId{f});
    meanings.push_back({.rule = rule_of(frame),
                        .kind = frame.kind,
                        .starts_python = starts_python(frame),
                        .backward_of = frame.function == backward_frame,
                        .preexisting = frame.function == preexisting_frame});
  }
  return meanings;
}

void apply(const FrameRule& rule, const Frame& frame, StackMeaning& meaning) {
  if (rule.phase != Phase::other) meaning.phase = rule.phase;
  if (rule.purpose == Purpose::none || rule.purpose == Purpose::wrapper) return;
  meaning.purpose = rule.purpose;
  if (rule.purpose == Purpose::compute) meaning.in_module = true;
  meaning.line = frame.line;
}

/// The frame called by nn.Module's machinery is the module's own; wrapper frames and the interpreter's come between.
void enter(const FrameMeaning& frame, StackId stack, StackMeaning& meaning) {
  if (frame.kind != FrameKind::python) return;
  const Purpose purpose = frame.rule == nullptr ? Purpose::none : frame.rule->purpose;
  if (purpose == Purpose::wrapper) return;
  if (meaning.enters_module && purpose != Purpose::compute) meaning.layer = stack;
  meaning.enters_module = purpose == Purpose::compute;
}

}  // namespace

std::vector<StackMeaning> stack_meanings(const Tables& tables) {
  const std::vector<FrameMeaning> frames = frame_meanings(tables);
  std::vector<StackMeaning> meanings(tables.stacks.size());
  for (std::uint32_t s = 1; s < tables.stacks.size(); ++s) {
    const Stack& stack = tables.stacks[s];
    const FrameMeaning& frame = frames[index(stack.frame)];
    StackMeaning meaning = meanings[index(stack.caller)];  // callers come first
    if (frame.backward_of) {
      // What follows is the operator's stack, not a caller's.
      meaning = {.phase = Phase::backward, .by_engine = true, .layer = meaning.layer, .call = meaning.call};
    } else {
      const bool python = frame.kind == FrameKind::python;
      if (python && !meaning.has_python) meaning.by_engine = meaning.by_engine || !frame.starts_python;
      meaning.has_python = meaning.has_python || python;
      meaning.has_operator = meaning.has_operator || names_operator(frame.kind);
      meaning.preexisting = meaning.preexisting || frame.preexisting;
      enter(frame, StackId{s}, meaning);
      if (tables[stack.frame].instance != StringId::none) meaning.call = StackId{s};
      if (frame.rule != nullptr) apply(*frame.rule, tables[stack.frame], meaning);
    }
    meaning.has_frames = true;
    meanings[s] = meaning;
  }
  return meanings;
}

}  // namespace memreel
