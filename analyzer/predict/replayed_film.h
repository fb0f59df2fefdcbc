// A film prepared for replays that differ in the sizes that are assumed.
#pragma once

#include <span>

#include "analyzer/predict/synthesize.h"
#include "analyzer/replay/replay.h"

namespace memreel {

class ReplayedFilm {
 public:
  /// `model` must outlive it.
  ReplayedFilm(const Model& model, std::span<const std::uint64_t> at);

  /// Replays `policy`, whose parameters are sound.
  ReplayResult replay(const PolicySpec& policy, const DeviceModel& device, const Assumption& assumption);

  const Film& film() const { return film_; }

 private:
  const Model& model_;
  Values at_;
  double factor_;
  Film film_;
  std::vector<Prepared> heaps_;  // one
};

}  // namespace memreel
