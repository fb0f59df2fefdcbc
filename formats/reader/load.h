// A whole trace into memory, as much of it as it may ask for.
#pragma once

#include <memory>
#include <string>

#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// load() (trace_reader.h) for a file whose events and tables may take up to `memory_limit`; 0: 256 times its size,
/// since blocks of equal events are small, but 64 MiB at least and a quarter of the machine's memory at most.
Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit);

/// The same to compute with: also fails when something in it is beyond formats/model/limits.h.
Result<Trace> load_checked(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});

}  // namespace memreel
