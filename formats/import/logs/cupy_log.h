// The format "cupy.jsonl": what CuPy's DebugPrintHook prints.
//
//   {"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":150496608256}     the pool got this from cudaMalloc
//   {"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
//   {"hook":"free","device_id":0,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
//
// Source: cupy/cuda/memory_hooks/debug_print.py of CuPy. Each device is a heap "cupy". The log doesn't say:
// - when: a line takes a nanosecond, as in pool.jsonl;
// - streams and threads: a hook sees those of the thread that entered it;
// - what was given back to cudaFree: a segment ends when another one takes its addresses, and that is counted as a
//   call that could not be observed;
// - requests that failed.
//
// The hook prints to standard output unless told otherwise, so lines that are no records are skipped and counted as
// unknown actions; when they are more than the records, it is another kind of file and an error.
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
