#include "formats/import/xplane/regions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

namespace memreel::xplane {
namespace {

constexpr Bytes unit = 256_B;
constexpr Bytes most_memory{std::uint64_t{1} << 45U};

/// The free memory inside known regions.
class FreeSpace {
 public:
  bool add_region(Address address, Bytes size) {
    const auto next = regions_.lower_bound(address.value);
    if (next != regions_.end() && next->first - address.value < size.count) return false;
    if (next != regions_.begin() && std::prev(next)->first + std::prev(next)->second > address.value) return false;
    regions_.emplace(address.value, size.count);
    total_ += size;
    insert(address.value, size.count);
    return true;
  }

  bool contains(Address address) const {
    const auto next = regions_.upper_bound(address.value);
    return next != regions_.begin() && address.value - std::prev(next)->first < std::prev(next)->second;
  }

  /// False if part of it is not free.
  bool take(Address address, Bytes size) {
    const auto next = free_.upper_bound(address.value);
    if (next == free_.begin()) return false;
    const auto [begin, length] = *std::prev(next);
    const std::uint64_t before = address.value - begin;
    if (before > length || size.count > length - before) return false;
    erase(std::prev(next));
    if (before > 0) insert(begin, before);
    if (length - before > size.count) insert(address.value + size.count, length - before - size.count);
    return true;
  }

  /// Frees taken memory. Neighbours merge within a region.
  void give_back(Address address, Bytes size) {
    std::uint64_t begin = address.value, length = size.count;
    const auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == begin + length && !regions_.contains(next->first)) {
      length += next->second;
      erase(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin() && std::prev(after)->first + std::prev(after)->second == begin &&
        !regions_.contains(begin)) {
      length += std::prev(after)->second;
      begin = std::prev(after)->first;
      erase(std::prev(after));
    }
    insert(begin, length);
  }

  Bytes total() const { return total_; }
  Bytes largest() const { return {sizes_.empty() ? 0 : sizes_.rbegin()->first}; }

 private:
  using Pieces = std::map<std::uint64_t, std::uint64_t>;  // lengths by start address

  void insert(std::uint64_t begin, std::uint64_t length) {
    free_.emplace(begin, length);
    ++sizes_[length];
  }
  void erase(Pieces::const_iterator piece) {
    const auto size = sizes_.find(piece->second);
    if (--size->second == 0) sizes_.erase(size);
    free_.erase(piece);
  }

  Pieces regions_, free_;
  std::map<std::uint64_t, std::uint64_t> sizes_;  // number of pieces by size
  Bytes total_;
};

/// Whether the recorded metric, which has six digits, matches these sizes.
bool agrees(double recorded, Bytes total, Bytes in_use, Bytes largest_free) {
  if (in_use > total) return false;
  const auto free = static_cast<double>((total - in_use).count);
  if (free == 0) return std::isnan(recorded) || recorded == 0;
  const double exact = (free - static_cast<double>(largest_free.count)) / free;
  return std::abs(exact - recorded) <= 5.1e-6 * exact;
}

/// One interpretation of the events: the pool grows, or existed from the start.
class Reading {
 public:
  Reading(bool growing, Bytes page, Bytes limit) : limit_(limit), next_(growing ? std::min(limit, 2_MiB) : limit) {
    result_.growing = growing;
    result_.page = page;
  }

  std::optional<Regions> run(std::span<const MemoryEvent* const> events) && {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = *events[i];
      const bool sound = event.is_free ? give_back(event) : take(event, i);
      if (!sound || !agrees(event.fragmentation, space_.total(), event.in_use, space_.largest())) return std::nullopt;
    }
    return std::move(result_);
  }

 private:
  bool take(const MemoryEvent& event, std::size_t i) {
    if (event.allocated.count == 0 || event.allocated.count % unit.count != 0 || event.allocated > most_memory)
      return false;
    if (event.address.value > std::uint64_t{1} << 62U) return false;
    if (!space_.contains(event.address) && !extend(event, i)) return false;
    return space_.take(event.address, event.allocated) && live_.emplace(event.address.value, event.allocated).second;
  }

  bool give_back(const MemoryEvent& event) {
    const auto found = live_.find(event.address.value);
    if (found == live_.end() || found->second != event.allocated) return false;
    space_.give_back(event.address, event.allocated);
    live_.erase(found);
    return true;
  }

  /// The region allocated for a request; if the device refused the first size, the largest of the retries that matches
  /// the metric.
  bool extend(const MemoryEvent& event, std::size_t i) {
    const Bytes available{(limit_ - std::min(limit_, space_.total())).count / unit.count * unit.count};
    const Bytes request = round_up(event.requested, unit);
    if (request > available) return false;
    const bool doubles_for_it = request > next_;
    while (request > next_) next_ = next_ * 2;
    for (Bytes wanted = std::min(next_, available); wanted >= request; wanted = backed_off(wanted)) {
      const Bytes size = round_up(wanted, result_.page);
      if (size < event.allocated) break;
      const Bytes rest = size - event.allocated;
      if (agrees(event.fragmentation, space_.total() + size, event.in_use, std::max(space_.largest(), rest))) {
        if (!doubles_for_it) next_ = std::min(next_ * 2, most_memory * 2);
        result_.regions.push_back({.event = i, .address = event.address, .size = size});
        return space_.add_region(event.address, size);
      }
    }
    return false;
  }

  static Bytes backed_off(Bytes refused) {
    const Bytes less = round_up(Bytes{static_cast<std::uint64_t>(static_cast<float>(refused.count) * 0.9F)}, unit);
    return less < refused ? less : refused - std::min(refused, unit);
  }

  Bytes limit_;
  Bytes next_;  // the size of the next region
  FreeSpace space_;
  std::unordered_map<std::uint64_t, Bytes> live_;  // chunks by address
  Regions result_;
};

}  // namespace

std::optional<Regions> infer_regions(std::span<const MemoryEvent* const> events) {
  if (events.empty() || events[0]->in_use_before().count != 0) return std::nullopt;
  const Bytes limit = events[0]->in_use + events[0]->available;
  if (limit.count == 0 || limit > most_memory) return std::nullopt;
  for (const bool growing : {true, false})
    for (const Bytes page : {unit, 2_MiB})
      if (auto regions = Reading(growing, page, limit).run(events)) return regions;
  return std::nullopt;
}

}  // namespace memreel::xplane
