// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/unwind.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace memreel::stacks {
namespace {

/// A number that another module at the same place is unlikely to have: two libraries of the same size rarely have their
/// first functions at the same places.
std::uint64_t identity_of(const CodeModule& place) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::array<std::uint64_t, 8> first_bytes{};
  const std::span<const std::byte> header = place.tables.header.bytes;
  std::memcpy(first_bytes.data(), header.data(), std::min(header.size(), sizeof first_bytes));
  std::uint64_t identity = place.module.end;
  for (const std::uint64_t bytes : first_bytes) identity = (identity ^ identity >> 32U ^ bytes) * odd;
  return identity;
}

}  // namespace

void Unwinder::forget() {
  seen_modules_.forget();
  generation_.fetch_add(1, std::memory_order_relaxed);
  rules_.clear();
}

/// Finds a rule in its module's tables, and caches it.
UnwindRule Unwinder::learn(std::uintptr_t return_address) {
  // A return address may lie after its function's last byte if the call never returns.
  const std::uintptr_t address = return_address - 1;
  const std::optional<CodeModule> place = code_.find(address);
  // Nothing is cached about code outside modules: JIT compilers replace it at will.
  if (!place) return UnwindRule(UnwindRule::Kind::unknown);
  if (seen_modules_.is_new(place->module.begin, identity_of(*place))) {
    // It may have replaced another module.
    generation_.fetch_add(1, std::memory_order_relaxed);
    rules_.clear();
  }
  const std::optional<FrameRow> row = row_at(place->tables, address);
  const UnwindRule rule = row ? UnwindRule::of(*row, address) : UnwindRule(UnwindRule::Kind::unknown);
  rules_.put(return_address, rule);
  return rule;
}

}  // namespace memreel::stacks
