#include "collector/stacks/unwind.h"

#include <algorithm>
#include <cstring>

namespace memreel::stacks {

void Unwinder::forget() {
  for (std::atomic<std::uint64_t>& seen : seen_modules_) seen.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_relaxed);
  rules_.clear();
}

/// Whether a module was not the last one seen at this place. Two that fall on one entry are new each time, which costs
/// time and nothing else.
bool Unwinder::is_new(const CodePlace& place) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  // Two libraries of the same size hardly have their first functions at the same places.
  std::array<std::uint64_t, 8> first_bytes{};
  const std::span<const std::byte> header = place.tables.header.bytes;
  std::memcpy(first_bytes.data(), header.data(), std::min(header.size(), sizeof first_bytes));
  std::uint64_t identity = place.module.end;
  for (const std::uint64_t bytes : first_bytes) identity = (identity ^ identity >> 32U ^ bytes) * odd;
  identity |= 1U;  // 0: none was seen
  const std::size_t entry = (place.module.begin * odd) >> 54U;
  return seen_modules_.at(entry).exchange(identity, std::memory_order_relaxed) != identity;
}

/// Finds a rule in the tables of its module, and remembers it.
UnwindRule Unwinder::learn(std::uintptr_t return_address) {
  // A return address may lie after its function's last byte, when what it called never returns.
  const std::uintptr_t address = return_address - 1;
  const std::optional<CodePlace> place = code_.find(address);
  // Nothing is concluded about code that belongs to no module: compilers at run time replace it as they like.
  if (!place) return UnwindRule(UnwindRule::Kind::unknown);
  if (is_new(*place)) {
    // It may lie where another one was before.
    generation_.fetch_add(1, std::memory_order_relaxed);
    rules_.clear();
  }
  const std::optional<FrameRow> row = row_at(place->tables, address);
  const UnwindRule rule = row ? UnwindRule::of(*row, address) : UnwindRule(UnwindRule::Kind::unknown);
  rules_.put(return_address, rule);
  return rule;
}

}  // namespace memreel::stacks
