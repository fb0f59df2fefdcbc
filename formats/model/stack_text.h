// SPDX-License-Identifier: Apache-2.0
// Stacks, streams and pools as text: what a frame, a stream and a pool are called. printable() makes names safe to
// show.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/tables.h"

namespace memreel {

/// "default", or the stream's handle in hexadecimal.
std::string stream_label(const Tables& tables, StreamId id);

/// "default", its name, or its key as PyTorch writes it: "(0, 1)".
std::string pool_label(const Tables& tables, PoolId id);

/// The function of the outermost frame for memory allocated before the recording began. Below it are the frames that
/// the source still knows about the allocation, if any.
inline constexpr std::string_view preexisting_frame = "<allocated before recording began>";

struct FrameText {
  std::string_view function;
  std::string_view file;        // empty if the source named none
  std::string_view short_file;  // the end of `file`: below an installation of packages, or the folder of all own code
  std::uint32_t line = 0;       // 0: unknown
  ModuleId module = ModuleId::none;
  std::string_view module_path;  // empty for Python frames
  std::string_view instance;     // for a call of an nn.Module: which one
  FrameKind kind = FrameKind::unknown;
  CodeOwner owner = CodeOwner::library;
};

/// A frame's texts. The views live as long as `tables`.
FrameText frame_text(const Tables& tables, FrameId id);

/// Frames of a stack, innermost first.
std::vector<FrameText> frames_of(const Tables& tables, StackId stack);

/// "function (file:line)", and the called module, "[transformer.h.3.mlp]". Functions of C++ libraries without their
/// types.
std::string text_of(const FrameText& frame);

// Paths that recordings name. They are text: the files may be on another machine.

/// "train.py" of "src/train.py".
constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace memreel
