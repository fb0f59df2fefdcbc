// The format "rmm.debug": the log that RMM itself writes (RMM_DEBUG_LOG_FILE, rmm_log.txt by default), not the CSV of
// logging_resource_adaptor.
//
// Source: rmm/logger.hpp, and RMM_LOG_* in rmm/mr/device: "[thread][time][level] message". A pool that can't grow says
// "[A][Stream 0x1][Upstream 7449546240B][FAILURE maximum pool size exceeded]": a failed request. Builds with
// RMM_LOGGING_LEVEL=TRACE also write "[A][stream 0x1][256B][0x7f..]" and "[D][...]": allocations and frees.
// A log with neither, which is the normal case, is refused.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::rmm {

bool looks_like_debug_log(std::span<const std::byte> beginning);

Result<void> import_debug_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                              const WriterOptions& options);

}  // namespace memreel::rmm
