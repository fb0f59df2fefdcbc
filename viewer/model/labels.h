// SPDX-License-Identifier: Apache-2.0
// Labels for what is in a trace: stacks as lines, the place that names them, the layers they pass. Pools and streams:
// formats/model/stack_text.h.
#pragma once

#include "analyzer/analysis/category/frame_rules.h"
#include "formats/model/stack_text.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {

/// "modeling_gpt2.py:240  forward > activations.py:66  ← train.py:42": the most informative frame (own_frame.h),
/// the innermost frame below it, and the stack's own line (the one that the reader can change), if these differ. Frames
/// that only pass a call on are skipped. "(no stack)" without one.
std::string stack_label(const Tables& tables, StackId stack);
/// The label of allocations without a stack, by phase: "(no stack, in the backward pass)".
std::string no_stack_label(Phase phase);
std::string thread_label(const Tables& tables, ThreadId id);
/// "device 0 torch.cuda"
std::string heap_label(const Tables& tables, HeapId id);
std::string split_label(const Tables& tables, std::uint32_t key, SplitBy by);
/// "0x7f2c40000000"
std::string address_text(Address address);
/// The instant after `events` events, as the command line names it: "event 41", the last of them, counted from 0;
/// "before the first event".
std::string event_text(std::uint32_t events);
/// Time since the beginning of the trace, with enough digits to distinguish instants `resolution` apart: "1.250 s",
/// "2:05 min", "3:07:30 h", "4 d 6:00 h".
std::string time_text(Nanoseconds since_begin, Nanoseconds resolution);

/// "forward"; "libtorch_cuda.so+0x1234" for a native frame without resolved symbols; "(unknown)" if nothing is known.
std::string frame_name(const Tables& tables, FrameId frame);

struct StackLine {
  FrameText frame;   // valid as long as the tables
  std::string name;  // frame_name()
  bool own = false;  // the innermost one that the reader can change (own_frame.h)
  bool library = false;
  bool wrapper = false;  // passes_on() (frame_rules.h)
  bool unnamed = false;  // its name is an offset in a module
};

/// Innermost first.
std::vector<StackLine> stack_lines(const Tables& tables, StackId stack);

/// The whole stack, a line for each frame, with full paths.
std::string copied_stack(const std::vector<StackLine>& lines);

/// "record.py:71  leak": the line of a stack that the reader can change; empty without frames.
std::string own_line(const std::vector<StackLine>& lines);

/// By StackId: whether its frame is a call of a module, which stands for the module's functions, or one of the
/// program's own functions outside modules. If the recording does not know modules, the functions that nn.Module's
/// machinery calls stand for them. That machinery, hooks, decorators and libraries are folded.
std::vector<bool> layer_frames(const Tables& tables, std::span<const StackMeaning> stacks);

/// Whether layer_frames() would name any layer.
bool has_layers(std::span<const StackMeaning> stacks);

}  // namespace memreel::viewer
