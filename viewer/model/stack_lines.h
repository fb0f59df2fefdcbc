// A stack as text: a line for each frame.
#pragma once

#include <string>
#include <vector>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel::viewer {

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

}  // namespace memreel::viewer
