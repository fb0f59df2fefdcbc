// A trace as it is judged (analyzer/replay/completed_trace.h), which is how it is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::viewer {

/// Longer traces are shown as they were recorded: the whole trace is held for this, 37 bytes for each event.
inline constexpr std::uint64_t longest_completed = 50'000'000;

/// The trace once more as it is judged, as a file in memory; null when that is as it was recorded. Events and
/// allocations have other numbers in it, rows of tables have the same. Fails as load_checked() does.
Result<std::shared_ptr<ByteFile>> completed_file(const std::shared_ptr<ByteFile>& file, const std::string& name,
                                                 Bytes memory_limit = {});

}  // namespace memreel::viewer
