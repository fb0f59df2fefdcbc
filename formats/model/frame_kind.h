// SPDX-License-Identifier: Apache-2.0
// What a frame of a stack is. Decided once, where frames enter the tables; nothing later looks at a path again.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

/// The source file of a native frame where PyTorch's unwinder found none.
inline constexpr std::string_view unknown_file = "??";

struct FrameNature {
  FrameKind kind = FrameKind::unknown;
  CodeOwner owner = CodeOwner::library;

  friend bool operator==(const FrameNature&, const FrameNature&) = default;
};

/// Of a frame with this function and normal path. `module`: path of the binary, empty if it is not known. `is_native`:
/// it was recorded as an address.
FrameNature nature_of(std::string_view function, std::string_view file, std::string_view module, bool is_native);

/// Sets kind and owner of the frames from number `first` on, and normalizes their paths: Windows's separators become
/// '/', a cell of a notebook becomes "<notebook cell 1784485557>" (its number is a hash of its text, and the same in
/// the next session).
void classify_frames(Tables& tables, std::size_t first = 1);

/// Whether code of this normal path is a notebook's cell, which an edit gives another path.
bool is_notebook_cell(std::string_view file);

/// Decides what tables print of each frame's path: what follows the folder that all of the user's files share, or
/// "site-packages/". For tables that are complete.
void shorten_paths(Tables& tables);

/// Whether reports leave frames of this kind out: they say how memory was requested, not by whom or for what.
constexpr bool is_hidden(FrameKind kind) {
  return kind == FrameKind::interpreter || kind == FrameKind::allocator || kind == FrameKind::dispatcher;
}

/// Whether display_name() says what the frame does, so that its file adds nothing.
constexpr bool names_operator(FrameKind kind) {
  return kind == FrameKind::operation || kind == FrameKind::autograd_node;
}

/// Takes hidden frames out of the stacks of a trace. A stack of nothing else keeps its outermost frame.
void hide_frames(Trace& trace);

/// A native function without return type, template arguments and parameters: "at::native::dropout_cuda".
std::string plain_name(std::string_view function);

/// How reports name the function of a frame: "aten::bmm" for an operation, "backward of bmm (BmmBackward0)" for a node
/// of the backward graph; otherwise `function`.
std::string display_name(FrameKind kind, std::string_view function);

// Stacks that differ only in the called modules.

/// For each StackId, the first stack with the same frames, ignoring the called modules: the repeated blocks of a model
/// count as one place in code. Linear in frames and stacks.
std::vector<StackId> same_code(const Tables& tables);

}  // namespace memreel
