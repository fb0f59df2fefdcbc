// SPDX-License-Identifier: Apache-2.0
// The requests of one recorded program, in a form comparable across recordings.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <variant>

#include "analyzer/analysis/difference/difference.h"
#include "analyzer/predict/kernel_requests.h"
#include "formats/model/trace.h"

namespace memreel {

/// One request of one heap.
struct Request {
  std::uint32_t site = 0;      // the requester: equal in all recordings that were made comparable
  Bytes size;                  // requested
  std::uint32_t event = 0;     // its `alloc` in the trace
  std::uint32_t lifetime = 0;  // number of requests before it was freed; `kept` if it never was

  bool older = false;  // than the recording: made in an unknown order, by unknown code

  static constexpr std::uint32_t kept = 0xFFFF'FFFF;
};

struct RecordedEmbedding {
  EmbeddingGradient gradient;
  KernelRequests requests;
};

/// A kernel that made requests in addition to its result, and what they reveal about it.
struct RecordedKernel {
  std::uint32_t row = 0;  // the request for the result
  std::variant<SumScratch, RecordedEmbedding> kernel;
};

/// What it requested in addition to its result.
KernelRequests requests_of(const RecordedKernel& recorded);

/// The requests of a heap in order, without what kernels requested in addition to their results. What is older than
/// the recording comes first, in order of addresses.
struct Requests {
  std::vector<Request> rows;
  std::vector<RecordedKernel> kernels;  // by row
  std::vector<std::uint32_t> ends;      // of sections: the row after the last of each step; the last is rows.size()
};

/// The requests that are older than the recording: the first rows.
inline std::span<const Request> older_of(const Requests& requests) {
  const auto end = std::ranges::find(requests.rows, false, &Request::older);
  return {requests.rows.begin(), end};
}

/// The sizes of summed numbers.
inline constexpr std::array<std::uint64_t, 2> number_bytes{2, 4};

/// Requests of `heap`. Sites are rows of the trace's stack table.
Requests requests_of(const Trace& trace, HeapId heap);

/// Gives the requests of `other` the sites of `reference`: stacks are matched by content (stack_match.h). Stacks that
/// only `other` has get their own numbers from `first_free` on; returns the number after the last.
std::uint32_t adopt_sites(const Tables& reference, const Requests& reference_requests, const Tables& other,
                          Requests& other_requests, std::uint32_t first_free);

/// The kernel that made more requests than the one for its result in this row, or null: of any kind, or of one.
inline const RecordedKernel* recorded_kernel(const Requests& requests, std::uint32_t row) {
  const auto found = std::ranges::lower_bound(requests.kernels, row, {}, &RecordedKernel::row);
  return found != requests.kernels.end() && found->row == row ? &*found : nullptr;
}
template <class Kernel>
const Kernel* recorded_kernel(const Requests& requests, std::uint32_t row) {
  const RecordedKernel* const found = recorded_kernel(requests, row);
  return found != nullptr ? std::get_if<Kernel>(&found->kernel) : nullptr;
}

}  // namespace memreel
