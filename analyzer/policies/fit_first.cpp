#include "analyzer/policies/fit_first.h"

#include "analyzer/policies/growing_range_entry.h"

namespace memreel {

PolicyEntry fit_first_entry() {
  return growing_range_entry<FitFirst>("fit.first", "one growing range, the lowest gap that fits");
}

}  // namespace memreel
