// The format "rmm.log": the output of RAPIDS RMM's logging_resource_adaptor.
//
// Source: cpp/src/mr/detail/logging_resource_adaptor_impl.cpp of RMM 26, and its predecessor since 2020,
// include/rmm/mr/device/logging_resource_adaptor.hpp.
//
// A log states the size, time, stream and thread of each request and whether it failed, and what was freed on which
// stream. So the trace has one heap, "rmm", at the framework level, without segments, and frees complete at once. The
// log does not state:
// - the day: times count from midnight before the first record, and wrap;
// - the device: it is the N of a file name with ".devN.", as RMM's Python interface names it, else 0;
// - what the program held before.
//
// Logs are truncated when a program crashes, mixed with other output on a terminal, and may lack their header if
// excerpted. Other lines are skipped and counted as unknown actions, an allocation where another one still lives as a
// free that was not observed (it ends that one), frees of what is not live as unmatched frees. If less than half of the
// lines are records, the file is something else and an error.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::rmm {

/// Whether the first lines include a header or a record.
bool looks_like_log(std::span<const std::byte> beginning);

/// Memory: live allocations.
Result<void> import_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink, const WriterOptions& options);

}  // namespace memreel::rmm
