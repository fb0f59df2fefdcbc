// The rows of the table of allocations: which, and in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/classification.h"
#include "viewer/model/document.h"
#include "viewer/model/filter.h"

namespace memreel::viewer {

enum class AllocationOrder : std::uint8_t { begin, size, lifetime, address, stack, category, phase };

/// Which allocations are listed.
struct AllocationQuery {
  HeapId heap = HeapId::none;
  std::uint32_t first_event = 0, end_event = never;  // those held at some time in between
  std::shared_ptr<const Sieve> sieve;                // null: all
  AllocationOrder order = AllocationOrder::begin;
  bool descending = false;
  std::uint32_t version = 0;     // events of the document
  std::uint32_t classified = 0;  // allocations: which of them the order rests on

  friend bool operator==(const AllocationQuery&, const AllocationQuery&) = default;
};

/// Rows by number. Takes no memory when all allocations are listed in order of their begin.
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
  /// Where an allocation is listed; by search from the beginning.
  std::optional<std::uint32_t> row_of(std::uint32_t allocation) const;

 private:
  std::uint32_t count_ = 0;
  bool descending_ = false;
  std::vector<std::uint32_t> rows_;
};

/// `classification`: may be null where the order has no use for it. None when cancelled.
std::optional<AllocationList> list_allocations(const Document& document, const AllocationQuery& query,
                                               const Progress& progress,
                                               const Classification* classification = nullptr);

}  // namespace memreel::viewer
