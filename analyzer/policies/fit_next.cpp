#include "analyzer/policies/fit_next.h"

#include "analyzer/policies/growing_range_entry.h"

namespace memreel {

PolicyEntry fit_next_entry() {
  return growing_range_entry<FitNext>("fit.next",
                                      "one growing range, the next gap that fits from where the last request was put");
}

}  // namespace memreel
