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

#include "collector/recorder/recorder.h"

namespace memreel::torch {

/// Asks for what PyTorch's allocator holds when memreel attaches to a program: its own snapshot
/// (torch.cuda.memory_snapshot), which states each segment and how it is divided, as no C++ interface does whose layout
/// is the same in two releases. Python takes it the next time its main thread may run Python, as for a signal handler:
/// only then is it certain that no thread waits for the interpreter's lock or the allocator's. From just before it on,
/// the trace is followed. Both go to the recorder active at that time, as RecordKind::snapshot_begin to snapshot_end,
/// of which the last always comes: at once without Python.
///
/// Leaves PyTorch alone if it is not loaded or has not used a GPU. Any thread.
void ask_for_snapshot();

/// Finds the allocator, if PyTorch is loaded. Takes the dynamic loader's lock and reads a file: for the writing thread.
void look_for_allocator();

/// Follows the trace from here on, if possible; whether it is followed. Not inside the allocator. After
/// look_for_allocator().
bool follow_trace();

/// How many entries the trace has reported, without those of snapshots. If the number is the same before and after
/// PyTorch took its locks one after the other, the allocator was idle meanwhile.
std::uint64_t trace_entries();

/// Whether entries state their pool: since PyTorch 2.8.
bool trace_states_pools();

/// A recording has ended: what threads have in hand does not belong to the next one.
void forget_recording();

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
