// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/trace_builder.h"

#include <filesystem>

namespace memreel::agent {

void ForwardStacks::note(std::uint32_t sequence, std::uint32_t thread, StackId stack) {
  if (sequence == 0 || stack == StackId::none) return;
  Operator& known = operators_[sequence % kept];
  if (known.sequence != sequence)
    known = {sequence, thread, stack};
  else if (known.thread != thread)
    known.stack = StackId::none;
}

StackId ForwardStacks::linked(std::uint32_t sequence, StackId stack) {
  const Operator& forward = operators_[sequence % kept];
  if (sequence == 0 || forward.sequence != sequence || forward.stack == StackId::none) return stack;
  const auto [found, is_new] = linked_.try_emplace({stack, forward.stack}, StackId::none);
  if (!is_new) return found->second;
  std::vector<FrameId> frames;
  for (StackId at = stack; at != StackId::none; at = writer_->tables()[at].caller)
    frames.push_back(writer_->tables()[at].frame);
  const FrameId between = writer_->intern(Frame{.function = writer_->intern(backward_frame)});
  StackId row = writer_->intern(Stack{.frame = between, .caller = forward.stack});
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    row = writer_->intern(Stack{.frame = *frame, .caller = row});
  found->second = row;
  return row;
}

StackRows::StackRows(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code)
    : recorder_(&recorder), writer_(&writer), own_code_(own_code) {
  modules_.refresh();
}

void StackRows::refresh() {
  recorder_->unwinder().refresh();
  if (modules_.refresh().empty()) return;
  // Other code may be at the same addresses from now on: unwind rules and rows for it may be wrong.
  recorder_->unwinder().forget();
  known_.assign(known_.size(), false);
}

StackId StackRows::row(stacks::StackKey key) {
  const auto index_of = [](stacks::StackKey k) { return static_cast<std::size_t>(k); };
  if (key == stacks::StackKey::none) return StackId::none;
  if (rows_.size() <= index_of(key)) {
    rows_.resize(index_of(key) + 1);
    known_.resize(index_of(key) + 1);
  }
  for (stacks::StackKey k = key; k != stacks::StackKey::none && !known_[index_of(k)]; k = recorder_->stacks()[k].caller)
    unknown_.push_back(k);
  for (; !unknown_.empty(); unknown_.pop_back()) {
    const std::size_t i = index_of(unknown_.back());
    rows_[i] = translate(recorder_->stacks()[unknown_.back()]);
    known_[i] = true;
  }
  return rows_[index_of(key)];
}

/// The caller already has its row.
StackId StackRows::translate(stacks::StackTree::Node node) {
  const StackId caller =
      node.caller == stacks::StackKey::none ? StackId::none : rows_[static_cast<std::size_t>(node.caller)];
  if (is_ours(node.frame)) return caller;
  const FrameId frame = node.frame.is_python() ? python_frame(node.frame) : native_frame(node.frame.code_address());
  return writer_->intern(Stack{.frame = frame, .caller = caller});
}

bool StackRows::is_ours(stacks::FrameKey frame) const {
  if (frame.is_python()) return false;
  if (own_code_.contains(frame.code_address())) return true;
  const auto module = modules_.find(frame.code_address());
  return module != stacks::ModuleTable::none &&
         std::filesystem::path(modules_[module].path).filename().string().starts_with("libcupti.so");
}

FrameId StackRows::native_frame(std::uintptr_t code) {
  const auto module = modules_.find(code);
  if (module == stacks::ModuleTable::none) return writer_->intern(Frame{.module_offset = code});
  while (module_rows_.size() <= module) {
    const stacks::LoadedModule& loaded = modules_[module_rows_.size()];
    module_rows_.push_back(writer_->intern(Module{.path = writer_->intern(loaded.path),
                                                  .build_id = loaded.build_id,
                                                  .base = {loaded.range.begin},
                                                  .size = {loaded.range.end - loaded.range.begin}}));
  }
  return writer_->intern(Frame{.module = module_rows_[module], .module_offset = code - modules_[module].range.begin});
}

FrameId StackRows::python_frame(stacks::FrameKey frame) {
  FrameText text;
  const PythonFrames* const python = recorder_->python();
  if (python != nullptr && python->describe != nullptr) python->describe(frame, text);
  return writer_->intern(Frame{.function = writer_->intern(text.function),
                               .file = writer_->intern(text.file),
                               .line = text.line,
                               .instance = instance_row(text)});
}

/// "transformer.h.3.mlp" if the program named it, else "GPT2MLP 3": instances of a class are counted from 0 in the
/// order of their first call.
StringId StackRows::instance_row(const FrameText& text) {
  if (!text.module_name.empty()) return writer_->intern(text.module_name);
  if (text.module_type.empty()) return StringId::none;
  auto& seen = instances_[text.module_type];
  const std::size_t number = seen.try_emplace(text.module_id, seen.size()).first->second;
  return writer_->intern(text.module_type + " " + std::to_string(number));
}

}  // namespace memreel::agent
