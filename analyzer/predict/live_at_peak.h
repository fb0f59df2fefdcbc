// What holds the memory at the live peak: in a prediction, and in the recording it was made from.
#pragma once

#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/predict/model.h"

namespace memreel {

struct LiveBySite {
  StackId stack = StackId::none;  // of the recording
  Bytes recorded, predicted;
};

struct LiveByCategory {
  Category category = Category::unknown;
  Bytes recorded, predicted;
};

/// What grows most comes first.
struct LiveAtPeak {
  std::vector<LiveBySite> sites;
  std::vector<LiveByCategory> categories;
};

/// `categories`: of the model's base. Replays both runs.
LiveAtPeak live_at_peak(const Model& model, const Categories& categories, const Values& at,
                        const Assumption& assumption);

}  // namespace memreel
