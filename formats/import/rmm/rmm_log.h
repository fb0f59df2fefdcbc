// The format "rmm.log": what RAPIDS RMM's logging_resource_adaptor writes.
//
// Source: cpp/src/mr/detail/logging_resource_adaptor_impl.cpp of RMM 26, and what it was made from:
// include/rmm/mr/device/logging_resource_adaptor.hpp, since 2020.
//
// A log says who asked for how much and when, on which stream and thread; that a request failed; and what was freed,
// on which stream. So the trace has one heap, "rmm", at the framework's level, without segments, and a free is its own
// completion. The log does not say:
// - the day: times count from the midnight before the first record, and wrap;
// - the device: it is the N of a file name with ".devN.", which RMM's Python interface makes, else 0;
// - what the program held before.
//
// Logs are cut off when a program crashes, mixed with other output when they go to a terminal, and begin without their
// header when they were cut out of something. Lines that are no records are skipped and counted as unknown actions, an
// allocation where another one still lives as a free that was not observed (it ends that one), frees of what is not
// live as unmatched frees. When fewer lines than not are records, it is another kind of file and an error.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::rmm {

/// Whether a header or a record is among the first lines.
bool looks_like_log(std::span<const std::byte> beginning);

/// Memory: what is live.
Result<void> import_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink, const WriterOptions& options);

}  // namespace memreel::rmm
