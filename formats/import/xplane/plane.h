// Reads one XPlane: a timeline per thread, with events that name their kind and their statistics by number.
//
// Numbers of fields: xplane.proto of openxla/xla (xla/tsl/profiler/protobuf).
#pragma once

#include <string_view>

#include "formats/import/xplane/recording.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

/// Adds what the plane says about memory. Stacks are made of the events that enclose another on its timeline: Python
/// calls, when the profiler recorded them, and the framework's own. Throws protozero::exception when `plane` is no
/// sound message.
void read_plane(std::string_view plane, Recording& recording, TraceWriter& writer);

}  // namespace memreel::xplane
