// SPDX-License-Identifier: Apache-2.0
// Limits on the numbers in a trace, and their check: once, by importers on input and when a trace is opened for
// computation, so that later code adds and subtracts without checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

// Limits on the numbers in a trace. They are checked once: by importers on input, and when a trace is opened for
// computation (value_check.h), so that later code adds and subtracts without checks.

/// The largest allocation, segment, and device: 32 TiB.
inline constexpr Bytes max_allocation{std::uint64_t{1} << 45U};
/// The highest address, so that the end of an allocation never overflows.
inline constexpr Address max_address{std::uint64_t{1} << 62U};
/// The largest value for a failed request or a device sample: PyTorch itself refuses more.
inline constexpr Bytes max_request{std::uint64_t{1} << 60U};
/// All allocations and segments in a trace together: a billion of 4 GiB.
inline constexpr Bytes max_total{std::uint64_t{1} << 62U};
/// Before and after the epoch: until 2116. Differences of times never overflow.
inline constexpr Nanoseconds max_time{(std::int64_t{1} << 62U) - 1};

/// Frames of a stack. The reader drops frames further out.
inline constexpr std::uint32_t max_stack_depth = 4096;
/// Heaps in a trace. Every analysis keeps state for each.
inline constexpr std::uint32_t max_heaps = 4096;

constexpr bool is_possible(Address address, Bytes size) { return address <= max_address && size <= max_allocation; }
constexpr bool is_possible(Nanoseconds time) { return time >= -max_time && time <= max_time; }

/// Whether an event of `kind` counts towards max_total.
constexpr bool counts_in_total(EventKind kind) { return has_address(kind) && !is_free(kind); }

/// Clamps a quantity that may be arbitrary, such as the size of a failed request.
constexpr std::uint64_t as_request(std::uint64_t bytes) { return std::min(bytes, max_request.count); }

/// Whether events and tables fit in memory: a block of equal events takes a few bytes in a file, and megabytes once
/// unpacked. `tables`: their memory. Errors: together they need more than `limit`, or there are more events than can be
/// numbered.
Result<void> check_memory(const Events& events, Bytes tables, Bytes limit, const std::string& where);

/// Cuts stacks deeper than max_stack_depth to their inner frames.
class StackDepths {
 public:
  /// Goes on with the stacks that `stacks` has gained since the last call; it may have lost some.
  void bound(std::vector<Stack>& stacks);
  /// How many were cut so far.
  std::uint64_t cut() const { return cut_; }

 private:
  std::vector<std::uint16_t> depths_{0};  // by stack
  std::uint64_t cut_ = 0;
};

/// Checks a trace's events in order, in batches of any size. Call it before computing with them: a reader only returns
/// what is in a file.
class ValueCheck {
 public:
  /// `where`: the file, for errors.
  explicit ValueCheck(std::string where) : where_(std::move(where)) {}

  /// Clamps the numbers of failed requests. Errors: any other number exceeds the limits.
  Result<void> check(EventColumns& events);
  Result<void> check(Events& events);

 private:
  /// `Rows`: how to read `count` events and to cut one's numbers. `small`: all numbers are within the limits.
  template <class Rows>
  Result<void> check(Rows rows, std::size_t count, bool small);

  std::string where_;
  std::uint64_t first_event_ = 0;  // of the next batch
  TotalBytes total_;
};

}  // namespace memreel
