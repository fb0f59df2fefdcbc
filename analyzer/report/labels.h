// What things of a trace are called in one line of a report.
#pragma once

#include <string>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// "train.py:41"; the function when there is no file; "(no stack)" when there is nothing.
std::string line_label(const FrameText& frame);

/// The place in the user's own code (own_frame.h): "step (train.py:41)", or "(no stack)".
std::string site_label(const Tables& tables, StackId stack);

}  // namespace memreel
