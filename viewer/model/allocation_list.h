// SPDX-License-Identifier: Apache-2.0
// The rows of the table of allocations, and their order.
#pragma once

#include <memory>

#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {

enum class AllocationOrder : std::uint8_t { begin, size, lifetime, address, stack, category, phase };

/// Selects the allocations to list.
struct AllocationQuery {
  HeapId heap = HeapId::none;
  std::uint32_t first_event = 0, end_event = never;  // allocations held at any time in this range
  std::shared_ptr<const Sieve> sieve;                // null: all
  AllocationOrder order = AllocationOrder::begin;
  bool descending = false;
  std::uint32_t version = 0;     // events of the document
  std::uint32_t classified = 0;  // number of classified allocations that the order is based on

  friend bool operator==(const AllocationQuery&, const AllocationQuery&) = default;
};

/// Random access to rows. Takes no memory when all allocations are listed in allocation order.
class AllocationList {
 public:
  AllocationList() = default;
  explicit AllocationList(std::uint32_t all, bool descending) : count_(all), descending_(descending) {}
  explicit AllocationList(std::vector<std::uint32_t> rows)
      : count_(static_cast<std::uint32_t>(rows.size())), rows_(std::move(rows)) {}

  std::uint32_t size() const { return count_; }
  std::uint32_t operator[](std::uint32_t row) const {
    if (!rows_.empty()) return rows_[row];
    return descending_ ? count_ - 1 - row : row;
  }
  /// The row of an allocation, by linear search.
  std::optional<std::uint32_t> row_of(std::uint32_t allocation) const;

 private:
  std::uint32_t count_ = 0;
  bool descending_ = false;
  std::vector<std::uint32_t> rows_;
};

/// `classification`: may be null if the order does not need it. None when cancelled.
std::optional<AllocationList> list_allocations(const Document& document, const AllocationQuery& query,
                                               const Progress& progress,
                                               const Classification* classification = nullptr);

}  // namespace memreel::viewer
