// The format "paddle.log": what PaddlePaddle's allocator says with GLOG_v=10.
//
//   I1207 23:45:28.132860 2778380 auto_growth_best_fit_allocator.cc:97] Allocate 100 bytes, aligned to 256, extra size
//   0 I1207 23:45:28.133036 2778380 auto_growth_best_fit_allocator.cc:258] Not found and reallocate
//   256(0x7fa263e00400), ... I1207 23:45:28.133040 2778380 auto_growth_best_fit_allocator.cc:160] Alloc 256 bytes, ptr
//   = 0x7fa263e00400 I1207 23:45:29.000001 2778380 auto_growth_best_fit_allocator.cc:171] Free 256 bytes, ptr =
//   0x7fa263e00400 I1207 23:45:29.000009 2778380 auto_growth_best_fit_allocator.cc:219] Free chunk with size 256
//
// Source: paddle/phi/core/memory/allocation/auto_growth_best_fit_allocator.cc; newer releases say ",
// place=Place(gpu:1)" at the end. Each device is a heap "paddle"; a place that is none of a GPU's is left out. What was
// requested is what the same thread said last, if its rounded size is the one; else the rounded size. A chunk that is
// given back is named by its size alone: it is the oldest of that size that nothing lives in, as the allocator looks
// for them. The log doesn't say streams.
//
// Times count from the beginning of the year, whose days are those of a leap year, for the log doesn't say which.
// All other lines are somebody else's and nothing of them is kept.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::logs {

/// Whether the allocator says something in the first lines.
bool looks_like_paddle_log(std::span<const std::byte> beginning);

/// Memory: what is live, the segments, and a number for each thread.
Result<void> import_paddle_log(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                               const WriterOptions& options);

}  // namespace memreel::logs
