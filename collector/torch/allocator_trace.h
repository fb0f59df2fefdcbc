// PyTorch's CUDA allocator tells those who ask of everything it does: requested sizes, streams, pools, completion,
// segments (`attachAllocatorTraceTracker`, PyTorch 2.2 and newer). To ask is a virtual function whose place moves from
// release to release, and what is told is a structure that grows at its end. Neither is guessed:
//
// - The function is found by its name in the library's .symtab, which PyTorch's packages keep, and is called for the
//   object whose virtual table is the one of that name. Stripped libraries, other allocators (cudaMallocAsync,
//   pluggable ones) and PyTorch 2.1 are left alone.
// - Where the structure has its fields has not changed; that it has a pool is in the mangled name of the function that
//   makes it. Each entry is looked at before it is believed, and each allocation has to agree with the report that
//   follows it. On the first disagreement nothing more of it is used, and reports alone are recorded.
//
// A tracker can't be taken back. While nothing is recorded it returns at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collector/recorder/recorder.h"

namespace memreel::torch {

/// Finds the allocator, if PyTorch is loaded. It takes the dynamic loader's lock and reads a file: the writing thread
/// calls it.
void look_for_allocator();

/// Whether the trace is to be followed; from the beginning it is. Not in a program that was running before the
/// recording began: what it held already is known as blocks (held.h), and one kind of size has to do for all.
void set_followed(bool followed);

/// Whether what PyTorch uses at the moment is known not to be its caching allocator. After look_for_allocator().
bool is_replaced() noexcept;

/// A call to the driver begins in this thread. When it is PyTorch's allocator that makes it, its trace is followed from
/// here on: before its first segment, and before what is put there, is told of. Nearly always reads one variable.
void follow_from_driver_call(agent::Recorder& recorder) noexcept;

/// What PyTorch reports of the block at `address`, whose size changes by `change`, for its profiler; `allocated` and
/// `reserved` are its totals after it. Comes last, after what the allocator's trace says of the same. True when it is
/// recorded with what the trace said; false when that is not known, and the report is all that there is.
bool take_report(agent::Recorder& recorder, std::uint64_t address, std::int64_t change, std::uint64_t allocated,
                 std::uint64_t reserved, std::int8_t device) noexcept;

/// Whether failures are recorded with what the trace said of them.
bool takes_failures() noexcept;

}  // namespace memreel::torch
