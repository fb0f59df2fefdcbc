// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/least_capacity.h"

#include <algorithm>

#include "analyzer/replay/heap/best_fit_index.h"

namespace memreel {

std::optional<Bytes> least_capacity(const CapacitySearch& search,
                                    const std::function<Attempt(Bytes capacity)>& replay) {
  // What others hold on a device is no multiple of a policy's unit.
  const Bytes rest{search.peak_reserved.count % search.unit.count};
  const auto units = [&](Bytes size) {
    return size <= rest ? 0 : (size - rest).count / search.unit.count + ((size - rest).count % search.unit.count != 0);
  };
  std::uint64_t enough = units(search.peak_reserved);
  std::uint64_t too_little = units(search.peak_live) == 0 ? 0 : units(search.peak_live) - 1;
  Attempt attempt = Attempt::failed;
  // A policy may behave differently once it knows a limit.
  while ((attempt = replay(rest + search.unit * enough)) == Attempt::failed) {
    too_little = std::max(too_little, enough);
    enough += std::max<std::uint64_t>(enough / 8, 1);
    if (enough > BestFitIndex::max_size / search.unit) return std::nullopt;
  }
  while (enough - too_little > 1 && attempt != Attempt::unfinished) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    attempt = replay(rest + search.unit * middle);
    (attempt == Attempt::served ? enough : too_little) = middle;
  }
  if (attempt == Attempt::unfinished) return std::nullopt;
  return rest + search.unit * enough;
}

}  // namespace memreel
