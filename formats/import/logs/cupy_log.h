// The format "cupy.jsonl": the output of CuPy's DebugPrintHook.
//
//   {"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":150496608256}     the pool got this from cudaMalloc
//   {"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
//   {"hook":"free","device_id":0,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
//
// Source: cupy/cuda/memory_hooks/debug_print.py of CuPy. Each device is a heap "cupy". The log does not state:
// - times: a line takes a nanosecond, as in pool.jsonl;
// - streams and threads: a hook sees only the thread that entered it;
// - memory returned to cudaFree: a segment ends when another takes its addresses, which is counted as a call that could
//   not be observed;
// - failed requests.
//
// The hook prints to standard output by default, so other lines are skipped and counted as unknown actions; if they
// outnumber the records, the file is something else and an error.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::logs {

/// Whether a record is among the first lines.
bool looks_like_cupy_log(std::span<const std::byte> beginning);

/// Memory: what is live, and the segments.
Result<void> import_cupy_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options);

}  // namespace memreel::logs
