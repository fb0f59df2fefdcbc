// Holds the numbers of a trace's events against limits.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/model/limits.h"
#include "formats/model/result.h"
#include "formats/model/total_bytes.h"
#include "formats/model/trace.h"

namespace memreel {

/// Passes over a trace's events in order, any number of them at a time. Whoever computes with them asks it first: a
/// reader only says what is in a file.
class ValueCheck {
 public:
  /// `where`: the file, for errors.
  explicit ValueCheck(std::string where) : where_(std::move(where)) {}

  /// Cuts what they say of requests that failed. Errors: something else in them is beyond the limits.
  Result<void> check(EventColumns& events);

 private:
  std::string where_;
  std::uint64_t first_event_ = 0;  // of the next columns
  TotalBytes total_;
};

}  // namespace memreel
