// Loads a whole trace into memory, up to a limit.
#pragma once

#include <memory>
#include <string>

#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// load() (trace_reader.h) for a file whose events and tables may take up to `memory_limit`; 0: 256 times its size,
/// since blocks of equal events are small, but at least 64 MiB and at most a quarter of the machine's memory.
Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit);

/// The same, for computation: also fails if anything in it exceeds formats/model/limits.h.
Result<Trace> load_checked(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit = {});

}  // namespace memreel
