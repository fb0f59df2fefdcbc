// The format "paddle.log": the log of PaddlePaddle's allocator with GLOG_v=10. Each line starts like the first:
//
//   I1207 23:45:28.132860 2778380 auto_growth_best_fit_allocator.cc:97]
//   Allocate 100 bytes, aligned to 256, extra size 0
//   Not found and reallocate 256(0x7fa263e00400), ...
//   Alloc 256 bytes, ptr = 0x7fa263e00400
//   Free 256 bytes, ptr = 0x7fa263e00400
//   Free chunk with size 256
//
// Source: paddle/phi/core/memory/allocation/auto_growth_best_fit_allocator.cc; newer releases append ",
// place=Place(gpu:1)". Each device is a heap "paddle"; places other than GPUs are left out. The requested size is the
// one that the same thread logged last, if it rounds to the block's size; else the rounded size. A freed chunk is
// identified only by its size: it is the oldest of that size without live allocations, in the allocator's own search
// order. The log has no streams.
//
// Times count from the start of the year, with the days of a leap year, as the log does not state the year. All other
// lines come from elsewhere and are ignored.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::logs {

/// Whether the first lines contain allocator output.
bool looks_like_paddle_log(std::span<const std::byte> beginning);

/// Memory: live allocations, the segments, and a number for each thread.
Result<void> import_paddle_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                               const WriterOptions& options);

}  // namespace memreel::logs
