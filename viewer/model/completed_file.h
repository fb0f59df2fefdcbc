// A trace completed as for judging (analyzer/replay/completed_trace.h), which is how it is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::viewer {

/// The most events of a trace that is held as a whole, at 37 bytes for each event, to be completed, judged or replayed.
/// Longer ones are shown as recorded.
inline constexpr std::uint64_t longest_in_memory = 50'000'000;

/// The completed trace, as a file in memory; null if it equals the recorded one. Its events and allocations have other
/// numbers, its table rows the same. Fails as load_checked() does.
Result<std::shared_ptr<ByteFile>> completed_file(const std::shared_ptr<ByteFile>& file, const std::string& name,
                                                 Bytes memory_limit = {});

}  // namespace memreel::viewer
