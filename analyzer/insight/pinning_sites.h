// SPDX-License-Identifier: Apache-2.0
// The places in the user's code whose blocks keep segments from being released, and what a free block can serve.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/insight/fragmentation.h"
#include "analyzer/insight/heap_map.h"
#include "formats/model/tables.h"
#include "formats/torch/settings.h"

namespace memreel {

/// Collects them over segments.
class PinningSites {
 public:
  using StackOf = std::function<StackId(AllocationId)>;

  /// `tables` must outlive it. `stack_of`: of the allocations in the maps.
  PinningSites(const Tables& tables, StackOf stack_of) : tables_(tables), stack_of_(std::move(stack_of)) {}

  /// Counts what is in use in a segment of `map`.
  void add(const HeapMap& map, const HeapSegment& segment);

  /// The number of an allocation's site, in the order of sites().
  std::size_t number_of(AllocationId id);
  /// In the order in which they were found.
  const std::vector<PinningSite>& sites() const { return sites_; }
  /// Those that pin most first.
  std::vector<PinningSite> sorted() &&;

 private:
  const Tables& tables_;
  StackOf stack_of_;
  std::vector<PinningSite> sites_;
  std::unordered_map<std::uint32_t, std::size_t> by_stack_;
  std::unordered_map<std::string, std::size_t> by_label_;
};

/// The largest request that a free block of PyTorch's small or large pools could serve; 0 if none: the large pools
/// serve requests above 1 MiB only.
Bytes largest_request(const TorchSettings& settings, bool small, Bytes free);

}  // namespace memreel
