#include "formats/import/torch/table_reader.h"

#include <algorithm>
#include <limits>
#include <span>

#include "formats/model/limits.h"

namespace memreel::torch {
namespace {

constexpr std::size_t max_name = 4096;
constexpr std::string_view not_compiled = "N/A";

}  // namespace

bool TableReader::read_stack(Value frames, StackId& into) {
  if (values_.arena().is(frames, ValueKind::none)) return true;
  if (!values_.expect(frames, ValueKind::list, "frames")) return false;
  if (values_.arena().used(frames)) {
    const std::optional<std::uint32_t> known = values_.became(frames, ValueReader::Became::stack);
    if (!known) return values_.fail("'frames' is a list that was used as something else");
    into = static_cast<StackId>(*known);
    return true;
  }
  frames_.clear();
  const std::span<const Value> all = values_.arena().items(frames);
  if (all.size() > max_stack_depth) ++cut_stacks_;
  for (const Value frame : all.first(std::min<std::size_t>(all.size(), max_stack_depth)))
    if (!read_frame(frame, frames_.emplace_back())) return false;
  // PyTorch lists the innermost frame first; the tree grows from the outermost. Consecutive stacks share most of that.
  bool shared = true;
  StackId stack = StackId::none;
  for (std::size_t depth = 0; depth < frames_.size(); ++depth) {
    const FrameId frame = frames_[frames_.size() - 1 - depth];
    shared = shared && depth < latest_stack_.size() && latest_stack_[depth].first == frame;
    if (!shared) {
      latest_stack_.resize(depth);
      latest_stack_.emplace_back(frame, writer_.intern(Stack{.frame = frame, .caller = stack}));
    }
    stack = latest_stack_[depth].second;
  }
  into = stack;
  return values_.become(frames, ValueReader::Became::stack, index(stack));
}

bool TableReader::read_frame(Value dict, FrameId& into) {
  if (!values_.expect(dict, ValueKind::dict, "a frame")) return false;
  if (values_.arena().used(dict)) {
    const std::optional<std::uint32_t> known = values_.became(dict, ValueReader::Became::frame);
    if (!known) return values_.fail("a frame is a dict that was used as something else");
    into = static_cast<FrameId>(*known);
    return true;
  }
  Frame frame;
  const auto items = values_.arena().items(dict);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const Value value = items[i + 1];
    switch (values_.word(items[i])) {
      case SnapshotKey::name:
        frame.function = name(value);
        break;
      case SnapshotKey::filename:
        frame.file = name(value);
        break;
      case SnapshotKey::line: {
        std::uint64_t line = 0;
        if (!values_.read_unsigned(value, "line", line)) return false;
        frame.line =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(line, std::numeric_limits<std::uint32_t>::max()));
        break;
      }
      default:
        break;
    }
  }
  into = writer_.intern(frame);
  return values_.become(dict, ValueReader::Became::frame, index(into));
}

StringId TableReader::name(Value value) {
  if (!values_.arena().is(value, ValueKind::text)) return StringId::none;
  const std::string_view text = values_.arena().text(value);
  return text.empty() ? StringId::none : writer_.intern(text.substr(0, max_name));  // most events' metadata are empty
}

StringId TableReader::compiled_region(Value context) {
  if (!values_.arena().is(context, ValueKind::text)) return StringId::none;
  return values_.arena().text(context) == not_compiled ? StringId::none : name(context);
}

MarkId TableReader::mark(StringId name, SnapshotKey stage) {
  const MarkPhase phase = stage == SnapshotKey::start ? MarkPhase::begin
                          : stage == SnapshotKey::end ? MarkPhase::end
                                                      : MarkPhase::instant;
  return writer_.intern(Mark{.name = name, .phase = phase});
}

// PyTorch 2.4 recorded ranges as entries with a frame named START or END whose file name is the range's name (#124179).
MarkId TableReader::mark_of(StackId stack) {
  const Tables& tables = writer_.tables();
  const Frame& frame = tables[tables[stack].frame];
  return mark(frame.file, key_of(tables[frame.function]));
}

}  // namespace memreel::torch
