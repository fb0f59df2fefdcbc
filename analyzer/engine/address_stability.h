// Whether a program gets the same addresses in every step, which CUDA graphs, registered buffers and caches keyed by
// address rely on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Compares the n-th allocation of a size in a step with the n-th of that size in the previous step. Only whole steps
/// count: what precedes the first end of a step is the program's start.
class AddressStability {
 public:
  /// `step_ends`: Prepared::step_ends, which must outlive this object.
  explicit AddressStability(std::span<const std::uint32_t> step_ends) : step_ends_(step_ends) {}

  /// Call in row order.
  void served(std::size_t row, Bytes requested, Address address) {
    while (next_ < step_ends_.size() && step_ends_[next_] <= row) end_step();
    if (next_ == 0 || next_ == step_ends_.size()) return;
    std::vector<Address>& now = now_[requested.count];
    if (next_ > 1) {
      ++compared_;
      const auto before = before_.find(requested.count);
      if (before != before_.end() && now.size() < before->second.size() && before->second[now.size()] == address)
        ++same_;
    }
    now.push_back(address);
  }

  /// The share over all whole steps except the first; none if there is nothing to compare.
  std::optional<double> share() const {
    if (compared_ == 0) return std::nullopt;
    return static_cast<double>(same_) / static_cast<double>(compared_);
  }

 private:
  void end_step() {
    ++next_;
    std::swap(before_, now_);
    now_.clear();
  }

  std::span<const std::uint32_t> step_ends_;
  std::size_t next_ = 0;                                                  // the next step end
  std::unordered_map<std::uint64_t, std::vector<Address>> before_, now_;  // addresses by size, in order
  std::uint64_t compared_ = 0, same_ = 0;
};

}  // namespace memreel
