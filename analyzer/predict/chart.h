// A program's memory over the size it runs at: the points and curves of a chart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/predict/device.h"
#include "analyzer/predict/predict.h"

namespace memreel {

struct GrowthChart {
  struct Recorded {
    std::uint64_t at = 0;
    Bytes live, reserved;
  };
  struct Predicted {
    std::uint64_t at = 0;
    Bytes live, reserved, low, high;
    bool asked = false;  // gets a point and a number below
  };

  std::string parameter;
  std::vector<Recorded> recorded;    // ascending
  std::vector<Predicted> predicted;  // ascending
  std::optional<Bytes> limit;        // of reserved bytes
  std::string limit_name;            // shown at its line
};

/// The parameter that is searched, and the axis of a chart: the first with several requested values, else one that
/// differs from the recordings.
std::size_t searched_parameter(std::span<const Values> targets, const Values& largest);

/// Over parameter `which`; the others are as in the first requested prediction.
GrowthChart make_growth_chart(const Predictor& predictor, std::span<const Prediction> asked, std::size_t which,
                              const PredictDevice& device);

}  // namespace memreel
