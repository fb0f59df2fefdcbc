// The inputs of `memreel predict`, parsed from its arguments.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/cli/predict_command.h"
#include "formats/model/result.h"

namespace memreel::cli {

struct PredictArguments {
  std::vector<std::string> recordings;
  std::vector<std::string> to;
  std::string capacity;
  std::string policy;
  std::filesystem::path output;
  Bytes memory_limit;
  std::filesystem::path html;
  bool tune = false;
  bool json = false;
};

/// The opened recordings, and the allocator of the predicted runs.
struct PredictInputs {
  std::vector<std::string> names;  // of the parameters
  std::vector<Recording> recordings;
  PolicySpec policy;
};

Result<PredictInputs> open_inputs(const PredictArguments& arguments);

}  // namespace memreel::cli
