// The device that predictions are made for.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analyzer/predict/model.h"
#include "formats/model/result.h"

namespace memreel {

struct PredictDevice {
  std::optional<Bytes> capacity;  // that the allocator may reserve
  std::string card;               // its name; empty when a size was given
  Bytes others;                   // of the card, what the allocator can't have
  bool assumed = true;            // `others` is not from a recording
  std::optional<GpuTraits> gpu;   // of the card
};

/// `capacity`: empty, a size, or a card's name; of the latter, what the recordings' samples show to be in use is taken
/// off. Errors name --capacity: it is neither, or too small.
Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings);

}  // namespace memreel
