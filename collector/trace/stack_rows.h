// SPDX-License-Identifier: Apache-2.0
// Stacks in the trace: nodes of the in-memory tree become table rows when first used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/recorder/recorder.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_tree.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

// The forward-pass operator behind an allocation in the backward pass.

/// The frame between a backward-pass stack and the stack of the forward operator.
inline constexpr std::string_view backward_frame = "[backward of]";

/// Remembers the latest operators of the forward pass: 2^16 sequence numbers. The few whose numbers came from two
/// threads are left out.
class ForwardStacks {
 public:
  explicit ForwardStacks(TraceOutput& writer) : writer_(&writer), operators_(kept) {}

  /// `thread` allocated in the forward pass after making the node `sequence`. Its first stack with that number is the
  /// operator's; later ones may be anything.
  void note(std::uint32_t sequence, std::uint32_t thread, StackId stack);

  /// `stack` with the stack of the operator that made the node `sequence` as its caller; `stack` itself if that is
  /// unknown.
  StackId linked(std::uint32_t sequence, StackId stack);

 private:
  static constexpr std::size_t kept = std::size_t{1} << 16U;
  struct Operator {
    std::uint32_t sequence = 0, thread = 0;
    StackId stack = StackId::none;
  };

  TraceOutput* writer_;
  std::vector<Operator> operators_;                        // by sequence number modulo `kept`
  std::map<std::pair<StackId, StackId>, StackId> linked_;  // by both stacks
};

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
