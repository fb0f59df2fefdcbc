// SPDX-License-Identifier: Apache-2.0
// Logs of allocators: TensorFlow's BFC, CuPy's pool, Paddle's; and the pool that such a log describes.
#pragma once

#include <map>
#include <set>
#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::logs {

/// One heap of a trace, at the framework level; frees complete at once. If an allocation or a segment appears where
/// another one still is, the log lacks a free: the older one ends, and `losses.hook_refused` counts it. Memory: live
/// allocations, and the segments.
class LoggedPool {
 public:
  LoggedPool(ImportOutput& writer, std::string_view name, std::int32_t device);

  HeapId heap() const { return heap_; }

  /// The caller sets the origin, time, address and size of `event`.
  LineComplaint allocate(Event event, Losses& losses);
  LineComplaint free(Event event);
  LineComplaint add_segment(Event event, Losses& losses);
  /// Frees the oldest segment of event.size without live allocations; false if there is none.
  bool remove_idle_segment(Event event);

 private:
  struct Segment {
    Bytes size;
    std::uint64_t number = 0;  // in order of creation
    std::uint64_t live = 0;    // allocations in it
  };
  using Segments = std::map<Address, Segment>;

  Segments::iterator segment_of(Address address);
  void count_live(Address address, bool more);
  void give_back(Segments::iterator segment, Event event);
  LineComplaint check(const Event& event);

  ImportOutput& writer_;
  HeapId heap_;
  Segments segments_;
  std::set<std::pair<Bytes, std::pair<std::uint64_t, Address>>> idle_;  // size, number, address
  std::uint64_t next_number_ = 0;
  TotalBytes total_;
};

// Two formats that logs hold of BFC arenas.
//
// "tf.bfc": the dump that TensorFlow's and JAX's allocator logs when it runs out of memory (bfc_allocator.cc,
// DumpMemoryLog): "InUse at 7f.. of size 256 next 1", "Free  at ..", in older releases "Chunk at ..". One instant: the
// latest dump in the log, with the failed request if it is there.
//
// "ort.arena": what ONNX Runtime's arena logs at verbose level (bfc_arena.cc, Extend): "Extended allocation by N
// bytes.", "Allocated memory at A to B". Its regions, as segments; what is inside them is not in the log.

bool looks_like_bfc_dump(std::span<const std::byte> beginning);
/// Memory: 40 bytes for each chunk of a dump.
Result<void> import_bfc_dump(ByteCursor& bytes, Header header, const BeginOutput& begin);

bool looks_like_ort_arena(std::span<const std::byte> beginning);
Result<void> import_ort_arena(ByteCursor& bytes, Header header, const BeginOutput& begin);

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

/// Whether a record is among the first lines.
bool looks_like_cupy_log(std::span<const std::byte> beginning);

/// Memory: what is live, and the segments.
Result<void> import_cupy_log(ByteCursor& bytes, Header header, const BeginOutput& begin);

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

/// Whether the first lines contain allocator output.
bool looks_like_paddle_log(std::span<const std::byte> beginning);

/// Memory: live allocations, the segments, and a number for each thread.
Result<void> import_paddle_log(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::logs
