// A set of event kinds.
#pragma once

#include <cstdint>
#include <string>

#include "formats/model/event.h"

namespace memreel {

class EventKinds {
 public:
  constexpr EventKinds() = default;
  constexpr explicit EventKinds(EventKind kind) { add(kind); }
  /// From a file: bit n is kind n. Unknown kinds are dropped.
  static constexpr EventKinds of_bits(std::uint64_t bits) {
    EventKinds kinds;
    kinds.bits_ = static_cast<std::uint32_t>(bits & ((1U << event_kind_count) - 1U));
    return kinds;
  }

  constexpr void add(EventKind kind) { bits_ |= bit(kind); }
  constexpr bool contains(EventKind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }

  /// "alloc, free_requested".
  std::string text() const {
    std::string names;
    for (std::size_t i = 0; i < event_kind_count; ++i)
      if (const auto kind = static_cast<EventKind>(i); contains(kind))
        names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
    return names;
  }

  friend constexpr EventKinds operator|(EventKinds a, EventKinds b) { return of_bits(a.bits_ | b.bits_); }
  friend bool operator==(const EventKinds&, const EventKinds&) = default;

 private:
  static constexpr std::uint32_t bit(EventKind kind) { return 1U << static_cast<unsigned>(kind); }

  std::uint32_t bits_ = 0;
};

}  // namespace memreel
