// A trace completed as for judging (analyzer/replay/completed_trace.h), which is how it is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::viewer {

/// Longer traces are shown as recorded: completing a trace holds all of it, at 37 bytes for each event.
inline constexpr std::uint64_t longest_completed = 50'000'000;

/// The completed trace, as a file in memory; null if it equals the recorded one. Its events and allocations have other
/// numbers, its table rows the same. Fails as load_checked() does.
Result<std::shared_ptr<ByteFile>> completed_file(const std::shared_ptr<ByteFile>& file, const std::string& name,
                                                 Bytes memory_limit = {});

}  // namespace memreel::viewer
