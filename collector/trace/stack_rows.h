// Stacks as the trace has them: nodes of the tree in memory become rows of its tables when they are first met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/recorder/recorder.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_tree.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

class StackRows {
 public:
  /// Frames in `own_code` are left out, and so are CUPTI's.
  StackRows(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code);

  /// To be called often: sees which modules came and went since the last call.
  void refresh();

  StackId row(stacks::StackKey key);

 private:
  StackId translate(stacks::StackTree::Node node);
  FrameId native_frame(std::uintptr_t code);
  FrameId python_frame(stacks::FrameKey frame);
  StringId instance_row(const FrameText& text);
  bool is_ours(stacks::FrameKey frame) const;

  Recorder* recorder_;
  TraceOutput* writer_;
  stacks::AddressRange own_code_;
  stacks::ModuleTable modules_;
  std::vector<ModuleId> module_rows_;                                       // by the table's numbers
  std::map<std::string, std::map<std::uintptr_t, std::size_t>> instances_;  // of a class: those without a name
  std::vector<StackId> rows_;                                               // by key
  std::vector<bool> known_;                                                 // whether it holds
  std::vector<stacks::StackKey> unknown_;  // while translating: the node asked for and its callers, outwards
};

}  // namespace memreel::agent
