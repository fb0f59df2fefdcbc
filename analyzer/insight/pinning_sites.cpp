// SPDX-License-Identifier: Apache-2.0
#include "analyzer/insight/pinning_sites.h"

#include <algorithm>
#include <utility>

#include "analyzer/report/own_frame.h"

namespace memreel {

void PinningSites::add(const HeapMap& map, const HeapSegment& segment) {
  std::vector<std::size_t> here;
  for (const HeapBlock& block : map.blocks_of(segment)) {
    if (block.use == BlockUse::free) continue;
    const std::size_t site = number_of(block.allocation);
    ++sites_[site].blocks;
    sites_[site].bytes += block.size;
    if (std::ranges::find(here, site) == here.end()) here.push_back(site);
  }
  for (const std::size_t site : here) {
    ++sites_[site].segments;
    sites_[site].unreleasable += segment.unreleasable;
    if (here.size() == 1) sites_[site].alone += segment.unreleasable;
  }
}

std::size_t PinningSites::number_of(AllocationId id) {
  const StackId stack = stack_of_(id);
  const auto [known, is_new] = by_stack_.try_emplace(index(stack), sites_.size());
  if (!is_new) return known->second;
  std::string label = site_label(tables_, stack);
  known->second = by_label_.try_emplace(label, sites_.size()).first->second;
  if (known->second == sites_.size()) sites_.push_back({.label = std::move(label), .stack = stack});
  return known->second;
}

std::vector<PinningSite> PinningSites::sorted() && {
  std::ranges::stable_sort(sites_, std::ranges::greater{},
                           [](const PinningSite& site) { return std::pair(site.alone, site.unreleasable); });
  return std::move(sites_);
}

Bytes largest_request(const TorchSettings& settings, bool small, Bytes free) {
  const Bytes most = small ? std::min(free, TorchSettings::max_small) : free;
  const auto serves = [&](std::uint64_t requested) {
    const Bytes rounded = settings.round(Bytes{requested});
    return rounded <= most && TorchSettings::is_small(rounded) == small;
  };
  // What a request is rounded to grows with it: in between, those that fit come first.
  std::uint64_t fits = small ? 0 : TorchSettings::max_small.count, beyond = most.count + 1;
  while (fits + 1 < beyond) {
    const std::uint64_t middle = fits + (beyond - fits) / 2;
    (settings.round(Bytes{middle}) <= most ? fits : beyond) = middle;
  }
  return serves(fits) ? Bytes{fits} : 0_B;
}

}  // namespace memreel
