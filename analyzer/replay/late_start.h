// SPDX-License-Identifier: Apache-2.0
// What a history that began late can't tell about the state it began in, learned from where its replay goes wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/policies/torch_resume.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A free block that a request got, or that was released.
struct FreePlace {
  Address address;  // as recorded
  Bytes size;
  std::optional<std::size_t> made;  // the block of the initial state whose age it has (TorchInitialAges)
};

/// Where a replay first differs from the recording.
struct LateDifference {
  std::size_t row = 0, segment_event = 0;
  std::optional<FreePlace> recorded, replayed;  // what was taken or released there
  Bytes wanted;                                 // by a request, as rounded; 0: it is about a release
  std::vector<Address> released;                // as recorded, for the request of that row

  bool is_after(const LateDifference& other) const {
    return std::pair(row, segment_event) > std::pair(other.row, other.segment_event);
  }
};

/// The state that a replay begins with.
struct LateStart {
  InitialState state;
  TorchInitialAges ages;
  std::vector<std::pair<std::size_t, std::size_t>> older;  // learned: the first is older than the second

  /// The states that differ from this one in one respect, and that might explain the difference, likeliest first:
  ///  - of two free blocks of equal size, the one that served is older. Blocks count where the release numbers them,
  ///  else
  ///    segments and expandable segments;
  ///  - an older allocation holds more than was requested: what is too small to be split off goes with it, so that the
  ///    free block behind it, which the replay chose, begins later;
  ///  - memory released by garbage collection had been unused for longer than what was kept.
  std::vector<LateStart> explanations(const LateDifference& difference, const TorchSettings& settings) const;

  /// The second kind alone. Of a block that was made shorter for one request, an earlier one may ask for even less: it
  /// was the best for that one only since.
  std::optional<LateStart> shortened(const LateDifference& difference, const TorchSettings& settings) const;
};

/// Which of these it is, when none explains a difference.
std::string unknown_of(const LateDifference& difference, const TorchSettings& settings);

}  // namespace memreel
