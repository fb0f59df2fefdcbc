// SPDX-License-Identifier: Apache-2.0
#include "formats/model/value_check.h"

#include <bit>
#include <limits>
#include <string_view>

#include "formats/model/files.h"

namespace memreel {
namespace {

/// What exceeds the limits; empty if nothing does.
std::string_view beyond_limits(EventKind kind, Nanoseconds time, std::uint64_t address, Bytes size) {
  if (!is_possible(time)) return "has a time that is out of range";
  if (has_address(kind) && Address{address} > max_address) return "has an address that no device has";
  if (has_address(kind) && size > max_allocation) return "has a size that no device has";
  return {};
}

/// Whether all numbers are small enough to need no individual check.
bool all_small(const EventColumns& events) {
  static_assert(std::has_single_bit(max_allocation.count) && std::has_single_bit(max_address.value));
  std::uint64_t times = 0, numbers = 0, sizes = 0;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const std::int64_t time = events.time[i].count();
    times |= static_cast<std::uint64_t>(time < 0 ? ~time : time);
    numbers |= events.address_or_value[i];
    sizes |= events.size[i].count;
  }
  return times < static_cast<std::uint64_t>(max_time.count()) && numbers < max_address.value &&
         sizes < max_allocation.count;
}

}  // namespace

Result<void> check_memory(const Events& events, Bytes tables, Bytes limit, const std::string& where) {
  if (events.memory() + tables > limit)
    return over_memory_limit(where, "holds events and tables that need more than", limit);
  if (events.count() <= Events::most) return {};
  return Error{.what = "holds more events than can be numbered (" + std::to_string(Events::most) + ")",
               .where = where,
               .remedy = "split it, or read it block by block with TraceReader"};
}

void StackDepths::bound(std::vector<Stack>& stacks) {
  static_assert(max_stack_depth < std::numeric_limits<std::uint16_t>::max());
  depths_.resize(std::min(depths_.size(), stacks.size()));
  for (std::size_t i = depths_.size(); i < stacks.size(); ++i) {
    Stack& stack = stacks[i];
    if (depths_[index(stack.caller)] == max_stack_depth) {
      stack.caller = StackId::none;
      ++cut_;
    }
    const bool has_caller = stack.caller != StackId::none;
    depths_.push_back(static_cast<std::uint16_t>(has_caller ? depths_[index(stack.caller)] + 1 : 1));
  }
}

template <class Rows>
Result<void> ValueCheck::check(Rows rows, std::size_t count, bool small) {
  const auto impossible = [&](std::size_t i, std::string_view what) {
    return Error{.what = "event " + std::to_string(first_event_ + i) + " (" + std::string(name_of(rows.kind(i))) +
                         ") " + std::string(what),
                 .where = where_,
                 .remedy = "the file is damaged or crafted"};
  };
  for (std::size_t i = 0; i < count; ++i) {
    const EventKind kind = rows.kind(i);
    if (!small) {
      const std::uint64_t number = rows.address_or_value(i);
      const std::string_view what = beyond_limits(kind, rows.time(i), number, rows.size(i));
      if (!what.empty()) return impossible(i, what);
      if (!has_address(kind) && has_size(kind)) rows.cut(i, {as_request(rows.size(i).count)}, as_request(number));
    }
    if (!counts_in_total(kind)) continue;
    total_ += rows.size(i);
    if (total_.bytes() > max_total) return impossible(i, "makes the total size more than a trace can have");
  }
  first_event_ += count;
  return {};
}

Result<void> ValueCheck::check(EventColumns& events) {
  struct Rows {
    EventColumns& events;
    EventKind kind(std::size_t i) const { return events.kind[i]; }
    Nanoseconds time(std::size_t i) const { return events.time[i]; }
    std::uint64_t address_or_value(std::size_t i) const { return events.address_or_value[i]; }
    Bytes size(std::size_t i) const { return events.size[i]; }
    void cut(std::size_t i, Bytes size, std::uint64_t value) {
      events.size[i] = size;
      events.address_or_value[i] = value;
    }
  };
  return check(Rows{events}, events.count(), all_small(events));
}

Result<void> ValueCheck::check(Events& events) {
  struct Rows {
    Events& events;
    EventKind kind(std::size_t i) const { return events.kind(i); }
    Nanoseconds time(std::size_t i) const { return events.time(i); }
    std::uint64_t address_or_value(std::size_t i) const { return events.address_or_value(i); }
    Bytes size(std::size_t i) const { return events.size(i); }
    void cut(std::size_t i, Bytes size, std::uint64_t value) {
      if (size != events.size(i) || value != events.value(i)) events.set_size_and_value(i, size, value);
    }
  };
  return check(Rows{events}, events.count(), events.all_below(max_time, max_address.value, max_allocation));
}

}  // namespace memreel
