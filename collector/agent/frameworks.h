// Python, PyTorch and annotated libraries come into a process when they like, often after the recording began.
#pragma once

#include <string>

#include "collector/options/options.h"
#include "collector/recorder/recorder.h"

namespace memreel::agent {

/// Connects what has come with `recorder`, as the options say. `began_late`: the program ran before, unrecorded. Called
/// when a recording begins, and again and again by its writing thread: it takes the dynamic loader's lock. Returns what
/// a user should know, once; usually empty.
std::string look_for_frameworks(const Options& options, Recorder& recorder, bool began_late);

/// How much was left out of stacks because Python's code objects found no room.
std::uint64_t refused_python_codes();

/// A recording of a program that runs already has begun: what frameworks do from now on, and what they hold, is seen,
/// too.
void joined_frameworks(const Options& options);

/// It has ended: nothing of ours is between them and what they call.
void left_frameworks();

}  // namespace memreel::agent
