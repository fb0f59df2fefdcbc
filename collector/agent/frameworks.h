// Python, PyTorch and annotated libraries may load at any time, often after recording began.
#pragma once

#include <string>

#include "collector/options/options.h"
#include "collector/recorder/recorder.h"

namespace memreel::agent {

/// Connects newly loaded frameworks to `recorder`, as the options say. `began_late`: the program ran unrecorded before.
/// Called when a recording starts, and periodically by the writing thread: takes the dynamic loader's lock. Returns a
/// message for the user, each one only once; usually empty.
std::string look_for_frameworks(const Options& options, Recorder& recorder, bool began_late);

/// How many frames are missing from stacks because the table of Python code objects was full.
std::uint64_t refused_python_codes();

/// A recording of a running program has begun: hooks the frameworks, and records what they already hold.
void joined_frameworks(const Options& options);

/// The recording has ended: removes all hooks from the frameworks.
void left_frameworks();

}  // namespace memreel::agent
