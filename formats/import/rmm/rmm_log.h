// SPDX-License-Identifier: Apache-2.0
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

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::rmm {

// One line of a log from RMM's logging_resource_adaptor.

enum class Action : std::uint8_t { allocate, free, allocate_failure };

struct LogRecord {
  std::uint64_t thread = 0;  // 0: not in the log
  Nanoseconds time_of_day{};
  Action action = Action::allocate;
  Address pointer;
  Bytes size;
  std::uint64_t stream = 0;
};

/// `THREAD,HH:MM:SS.ffffff,ACTION,POINTER,SIZE,STREAM`; in the first half of 2020 without the thread and with a colon
/// before the microseconds. Pointers and streams are hexadecimal, `(nil)` is 0; streams without 0x are read as decimal
/// if possible, as they once were. Numbers have at most 19 decimal or 16 hexadecimal digits.
LineComplaint parse(std::string_view line, LogRecord& record);

/// Whether a line is a header.
bool is_header(std::string_view line);

/// Whether the first lines include a header or a record.
bool looks_like_log(std::span<const std::byte> beginning);

/// Memory: live allocations.
Result<void> import_log(ByteCursor& bytes, Header header, const BeginOutput& begin);

// The format "rmm.debug": the log that RMM itself writes (RMM_DEBUG_LOG_FILE, rmm_log.txt by default), not the CSV of
// logging_resource_adaptor.
//
// Source: rmm/logger.hpp, and RMM_LOG_* in rmm/mr/device: "[thread][time][level] message". A pool that can't grow says
// "[A][Stream 0x1][Upstream 7449546240B][FAILURE maximum pool size exceeded]": a failed request. Builds with
// RMM_LOGGING_LEVEL=TRACE also write "[A][stream 0x1][256B][0x7f..]" and "[D][...]": allocations and frees.
// A log with neither, which is the normal case, is refused.

bool looks_like_debug_log(std::span<const std::byte> beginning);

Result<void> import_debug_log(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::rmm
