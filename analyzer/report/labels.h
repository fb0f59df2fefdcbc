// What things of a trace are called in one line of a report.
#pragma once

#include <cstdint>
#include <string>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// "train.py:41"; the function when there is no file; "(no stack)" when there is nothing.
std::string line_label(const FrameText& frame);

/// The place in the user's own code (own_frame.h): "step (train.py:41)", or "(no stack)".
std::string site_label(const Tables& tables, StackId stack);

/// "default", or the stream's handle in hexadecimal.
std::string stream_label(const Tables& tables, StreamId id);

/// "default", its name, or its key as PyTorch writes it: "(0, 1)".
std::string pool_label(const Tables& tables, PoolId id);

/// "0x7f2a00000200".
std::string hexadecimal(std::uint64_t value);

}  // namespace memreel
