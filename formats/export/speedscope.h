// speedscope's JSON, for flame graphs of live memory.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// A sampled profile for each heap with live memory: the stacks that hold it, weighted by live requested bytes, in
/// stack order. Format: file-format-schema.json of jlfwong/speedscope.
void export_speedscope(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
