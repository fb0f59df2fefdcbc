// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/fit.h"

namespace memreel {

PolicyEntry fit_first_entry() {
  return growing_range_entry<FitFirst>("fit.first", "one growing range, the lowest gap that fits");
}

PolicyEntry fit_next_entry() {
  return growing_range_entry<FitNext>("fit.next",
                                      "one growing range, the next gap that fits from where the last request was put");
}

PolicyEntry fit_best_entry() {
  return growing_range_entry<FitBest>("fit.best", "one growing range, the smallest gap that fits");
}

}  // namespace memreel
