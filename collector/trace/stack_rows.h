// Stacks in the trace: nodes of the in-memory tree become table rows when first used.
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
  /// Leaves out frames in `own_code`, and CUPTI's.
  StackRows(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code);

  /// Call it often: detects modules that were loaded and unloaded.
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
  std::map<std::string, std::map<std::uintptr_t, std::size_t>> instances_;  // by class: those without a name
  std::vector<StackId> rows_;                                               // by key
  std::vector<bool> known_;                                                 // whether the row is valid
  std::vector<stacks::StackKey> unknown_;  // while translating: the requested node and its callers, outwards
};

}  // namespace memreel::agent
