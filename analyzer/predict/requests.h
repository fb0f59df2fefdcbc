// The requests of one recorded program, in the form in which those of several recordings are compared.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/difference/stack_match.h"
#include "analyzer/predict/column_sum.h"
#include "formats/model/trace.h"

namespace memreel {

/// One request of one heap.
struct Request {
  std::uint32_t site = 0;      // who asked: equal in all recordings that were made comparable
  Bytes size;                  // requested
  std::uint32_t event = 0;     // its `alloc` in the trace
  std::uint32_t lifetime = 0;  // how many requests came before it was freed; `kept` when it never was

  static constexpr std::uint32_t kept = 0xFFFF'FFFF;
};

/// A sum over rows, and the scratch that was taken for it.
struct RecordedSum {
  std::uint32_t row = 0;  // the request for the sums
  SumScratch scratch;
};

/// The requests of a heap in their order, without the scratch of sums.
struct Requests {
  std::vector<Request> rows;
  std::vector<RecordedSum> sums;    // by row
  std::vector<std::uint32_t> ends;  // of sections: the row behind the last of each step; the last is rows.size()
};

/// The sizes of numbers that are summed.
inline constexpr std::array<std::uint64_t, 2> number_bytes{2, 4};

/// Requests of `heap`. Sites are rows of the trace's table of stacks.
Requests requests_of(const Trace& trace, HeapId heap);

/// Gives the requests of `other` the sites of `reference`: stacks are matched by what they say (stack_match.h). Stacks
/// that only `other` has get numbers of their own from `first_free` on; returns the number behind the last.
std::uint32_t adopt_sites(const Tables& reference, const Requests& reference_requests, const Tables& other,
                          Requests& other_requests, std::uint32_t first_free);

}  // namespace memreel
