// What the beginning of a driver call leaves for its end. CUPTI has 8 bytes for that in each call, but has them once:
// where it is shared, another subscriber may write there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda {

/// Of one thread, which may be in calls within calls. All zero bytes is its first state.
class EnteredCalls {
 public:
  /// The call with this number begins. Of more calls within each other than there is room for, the outermost are
  /// forgotten: of those whose ends never come, too.
  constexpr void put(std::uint32_t call, std::uint64_t value) {
    if (value == 0) return;
    entries_[next_ % entries_.size()] = {.call = call, .value = value};
    ++next_;
  }

  /// The call ends: what was put at its beginning, else 0.
  constexpr std::uint64_t take(std::uint32_t call) {
    for (std::uint32_t back = 1; back <= entries_.size(); ++back) {
      Entry& entry = entries_[(next_ - back) % entries_.size()];
      if (entry.value == 0 || entry.call != call) continue;
      const std::uint64_t value = entry.value;
      entry = {};
      if (back == 1) --next_;
      return value;
    }
    return 0;
  }

 private:
  struct Entry {
    std::uint32_t call;
    std::uint64_t value;  // 0: empty
  };

  std::array<Entry, 4> entries_{};
  std::uint32_t next_ = 0;  // counts entries; it wraps, and their number divides 2^32
};

}  // namespace memreel::cuda
