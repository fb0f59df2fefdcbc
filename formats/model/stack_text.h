// Stacks as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/tables.h"

namespace memreel {

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

}  // namespace memreel
