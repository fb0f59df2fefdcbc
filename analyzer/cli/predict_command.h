// What `memreel predict` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/predict/predict.h"

namespace memreel::cli {

/// The device that predictions are made for.
struct PredictDevice {
  std::optional<Bytes> capacity;  // that the allocator may reserve
  std::string card;               // its name; empty when a size was given
  Bytes others;                   // of the card, what the allocator can't have
  bool assumed = true;            // `others` is not from a recording
};

struct PredictReport {
  PredictDevice device;
  std::vector<Prediction> predictions;
  std::string searched;                        // the parameter of the two below
  std::optional<std::uint64_t> largest;        // that fits, of those asked for; none: not asked, or none of them does
  std::optional<std::uint64_t> largest_whole;  // that fits, of all numbers; 0: none
};

void print_predict_text(const Predictor& predictor, const PredictReport& report);
void print_predict_json(const Predictor& predictor, const PredictReport& report);

}  // namespace memreel::cli
