// Reads one XPlane: a timeline per thread, with events that refer to their kind and statistics by number.
//
// Field numbers: xplane.proto of openxla/xla (xla/tsl/profiler/protobuf).
#pragma once

#include <string_view>

#include "formats/import/xplane/recording.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

/// Adds the plane's memory data. Stacks are built from the enclosing events on the same timeline: Python calls, if the
/// profiler recorded them, and the framework's own. Throws protozero::exception if `plane` is not a valid message.
void read_plane(std::string_view plane, Recording& recording, TraceWriter& writer);

}  // namespace memreel::xplane
