// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDA allocator reports everything it does to registered trackers: requested sizes, streams, pools,
// completion, segments (`attachAllocatorTraceTracker`, PyTorch 2.2 and newer). Registering is a virtual function whose
// slot moves from release to release, and the report is a structure that grows at its end. Neither is guessed:
//
// - The function is found by its name in the library's .symtab, which PyTorch's packages keep, and is called on the
//   object whose vtable has the matching name. Stripped libraries, other allocators (cudaMallocAsync, pluggable ones)
//   and PyTorch 2.1 are left alone.
// - The structure's field offsets have never changed; whether it has a pool shows in the mangled name of the function
//   that makes it. Each entry is validated, and each allocation must agree with the report that follows it. On the
//   first disagreement the trace is abandoned, and only reports are recorded.
//
// A tracker can't be removed. While nothing is recorded it returns at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collector/recorder/recorder.h"

namespace memreel::torch {

// What PyTorch's allocator already holds when memreel attaches to a program, from its own snapshot
// (torch.cuda.memory_snapshot): blocks and segments.

/// Makes Python take the snapshot the next time its main thread may run Python, as for a signal handler, and pass the
/// result to the recorder active at that time: RecordKind::snapshot_begin, snapshot_block, snapshot_end. Only then is
/// it certain that no thread waits for the interpreter's lock or the allocator's. Does nothing without Python. Leaves
/// PyTorch alone if it is not loaded or has not used a GPU. Any thread.
void ask_for_snapshot();

/// Finds the allocator, if PyTorch is loaded. Takes the dynamic loader's lock and reads a file: for the writing thread.
void look_for_allocator();

/// Whether to follow the trace; initially yes. Not in a program that was running before the recording began: what it
/// already held is known as blocks (held.h), and the two kinds of size must not be mixed.
void set_followed(bool followed);

/// Whether PyTorch is known not to be using its caching allocator at the moment. After look_for_allocator().
bool is_replaced() noexcept;

/// A driver call begins on this thread. If PyTorch's allocator makes it, its trace is followed from here on: before it
/// reports its first segment and the blocks in it. Nearly always reads one variable.
void follow_from_driver_call(agent::Recorder& recorder) noexcept;

/// PyTorch's profiler report on the block at `address`, whose size changes by `change`; `allocated` and `reserved` are
/// its totals afterwards. Comes after the allocator's trace entry for the same block. True if recorded with the trace's
/// data; false if that is missing, and the report is all there is.
bool take_report(agent::Recorder& recorder, std::uint64_t address, std::int64_t change, std::uint64_t allocated,
                 std::uint64_t reserved, std::int8_t device) noexcept;

/// Whether failures are recorded with the trace's data.
bool takes_failures() noexcept;

}  // namespace memreel::torch
