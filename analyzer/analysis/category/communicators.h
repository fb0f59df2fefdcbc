// SPDX-License-Identifier: Apache-2.0
// NCCL's memory by communicator.
#pragma once

#include "formats/model/trace.h"

namespace memreel {

/// Created by one call of ncclCommInit*() or ncclCommSplit().
struct Communicator {
  StackId caller = StackId::none;  // the caller of NCCL; none: not recorded
};

struct Communicators {
  std::vector<Communicator> list;
  std::vector<std::uint32_t> number;  // by AllocationId: from 1, in the order of `list`; 0: no communicator, or unknown

  std::uint32_t of(std::uint32_t allocation) const { return allocation < number.size() ? number[allocation] : 0; }
};

/// What a thread allocates in calls that make communicators belongs to one communicator until the thread allocates
/// elsewhere, calls from another place, or enters a range by which NCCL marks such a call (NVTX). Two calls with none
/// of these between them count as one. If NCCL's frames have no names, only that range identifies such a call.
///
/// What NCCL allocates later (buffers for the first collective, or for another algorithm) belongs to the communicator
/// of the call under way, which NCCL's ranges name (formats/model/tables.h): of the allocating thread, at the end
/// of a group of the calls in it; in a thread of NCCL's own, of all threads. Without such a name it belongs to the
/// communicator that the thread allocated for before, or to the only one of its device that holds memory. What several
/// may have asked for belongs to none. ncclMemAlloc() is the program's memory. Time: linear.
Communicators find_communicators(const Trace& trace);

}  // namespace memreel
