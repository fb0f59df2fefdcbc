#include "analyzer/policies/fit_best.h"

#include "analyzer/policies/growing_range_entry.h"

namespace memreel {

PolicyEntry fit_best_entry() {
  return growing_range_entry<FitBest>("fit.best", "one growing range, the smallest gap that fits");
}

}  // namespace memreel
