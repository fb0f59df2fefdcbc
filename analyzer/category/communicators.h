// NCCL's memory by communicator.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// Made by one call of ncclCommInit*() or ncclCommSplit().
struct Communicator {
  StackId caller = StackId::none;  // who called NCCL; none: not recorded
};

struct Communicators {
  std::vector<Communicator> list;
  std::vector<std::uint32_t>
      number;  // by AllocationId: from 1, in order of `list`; 0: of no communicator, or not known

  std::uint32_t of(std::uint32_t allocation) const { return allocation < number.size() ? number[allocation] : 0; }
};

/// What a thread allocates in calls that make communicators belongs to one communicator until the thread allocates
/// elsewhere, calls from another place, or a range that NCCL marks as such a call begins (NVTX). Two calls with nothing
/// of this between them are one. Where NCCL's frames have no names, that range alone tells such a call. What NCCL
/// allocates later, e.g. in a thread of its own or for the first collective, belongs to the only communicator of its
/// device that holds memory; where there are several, it is not known to which. ncclMemAlloc() is the program's memory.
/// Time: linear.
Communicators find_communicators(const Trace& trace);

}  // namespace memreel
