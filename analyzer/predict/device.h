// The device that predictions are made for.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analyzer/predict/model.h"
#include "formats/model/result.h"

namespace memreel {

struct PredictDevice {
  std::optional<Bytes> capacity;  // the most the allocator may reserve
  std::string card;               // its name; empty if a size was given
  Bytes others;                   // the part of the card that the allocator can't have
  bool assumed = true;            // `others` does not come from a recording
  std::optional<GpuTraits> gpu;   // of the card
};

/// `capacity`: empty, a size, or a card's name; for the latter, subtracts what the recordings' samples show to be in
/// use. Errors name --capacity: it is neither, or too small.
Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings);

}  // namespace memreel
