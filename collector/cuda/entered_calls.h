// What the entry of a driver call stores for its exit. CUPTI has 8 bytes for that in each call, but only one such slot:
// when CUPTI is shared, another subscriber may write there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda {

/// For one thread, which may be in nested calls. All-zero bytes are the initial state.
class EnteredCalls {
 public:
  /// The call with this number begins. If calls nest deeper than there is room for, the outermost are forgotten; so are
  /// those whose exit never comes.
  constexpr void put(std::uint32_t call, std::uint64_t value) {
    if (value == 0) return;
    if (count_ == entries_.size()) {
      std::move(entries_.begin() + 1, entries_.end(), entries_.begin());
      --count_;
    }
    entries_[count_++] = {.call = call, .value = value};
  }

  /// The call ends, and with it all calls nested in it. Returns the value stored at its entry, else 0.
  constexpr std::uint64_t take(std::uint32_t call) {
    for (std::size_t i = count_; i-- > 0;) {
      if (entries_[i].call != call) continue;
      count_ = i;
      return entries_[i].value;
    }
    return 0;
  }

 private:
  struct Entry {
    std::uint32_t call;
    std::uint64_t value;
  };

  std::array<Entry, 4> entries_{};
  std::size_t count_ = 0;
};

}  // namespace memreel::cuda
