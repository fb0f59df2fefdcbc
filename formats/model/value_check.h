// Checks the numbers in a trace's events against limits.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/model/limits.h"
#include "formats/model/result.h"
#include "formats/model/total_bytes.h"
#include "formats/model/trace.h"

namespace memreel {

/// Checks a trace's events in order, in batches of any size. Call it before computing with them: a reader only returns
/// what is in a file.
class ValueCheck {
 public:
  /// `where`: the file, for errors.
  explicit ValueCheck(std::string where) : where_(std::move(where)) {}

  /// Clamps the numbers of failed requests. Errors: any other number exceeds the limits.
  Result<void> check(EventColumns& events);

 private:
  std::string where_;
  std::uint64_t first_event_ = 0;  // of the next batch
  TotalBytes total_;
};

}  // namespace memreel
