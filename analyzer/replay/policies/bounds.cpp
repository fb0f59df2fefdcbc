// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/bounds.h"

#include <algorithm>
#include <array>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {
namespace {

/// The effect of an operation on the live bytes, by Op: masks for its size, which is added or subtracted.
constexpr std::array<std::uint64_t, op_count> adds{~std::uint64_t{0}};
constexpr std::array<std::uint64_t, op_count> subtracts{0, ~std::uint64_t{0}, ~std::uint64_t{0}};
constexpr std::array<std::uint64_t, op_count> tries{0, 0, 0, 0, ~std::uint64_t{0}};

/// Larger sizes, which no device has, could overflow the sums.
constexpr std::uint64_t largest_summed = std::uint64_t{1} << 50U;

}  // namespace

bool BoundLive::run_at_once(const Prepared& heap, std::size_t begin, std::size_t end, Bytes& live, Measures& measures) {
  std::uint64_t now = live.count, most = now, most_tried = now, all_sizes = 0;
  std::size_t most_row = begin;
  for (std::size_t row = begin; row < end; ++row) {
    const std::uint64_t size = heap.size[row].count;
    const auto op = static_cast<std::size_t>(heap.op[row]);
    now += (size & adds[op]) - (size & subtracts[op]);
    all_sizes |= size;
    most_tried = std::max(most_tried, now + (size & tries[op]));
    most_row = now > most ? row : most_row;
    most = std::max(most, now);
  }
  if (all_sizes >= largest_summed || Bytes{std::max(most, most_tried)} > device_.limit()) return false;
  live = {now};
  device_.shrink(use_.reserved);
  device_.extend(live);
  use_.allocated = use_.reserved = live;
  measures.live = measures.allocated = measures.reserved = {{most}, most_row};
  measures.live_at_reserved_peak = measures.allocated_at_reserved_peak = {most};
  return true;
}

PolicyEntry bound_live_entry() {
  return {.info = {.name = "bound.live",
                   .description = "lower bound: the bytes requested and not yet freed",
                   .parameters = {},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            return BoundPolicy{.spec = spec, .unit = 1_B, .run = [](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<BoundLive>(heap, BoundLive::Settings{}, options);
                               }};
          }};
}

PolicyEntry bound_pages_entry() {
  return {.info = {.name = "bound.pages",
                   .description = "every allocation in its own device pages, released immediately",
                   .parameters = {{"page", "2MiB", AllowedValues::power_of_two(512_B, 1_GiB),
                                   "an allocation takes whole pages of its own"}},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const Bytes page = size_of(spec, "page");
            return BoundPolicy{
                .spec = spec,
                .unit = page,
                .run = [settings = BoundPages::Settings{page}](const Prepared& heap, const RunOptions& options) {
                  return run_policy<BoundPages>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
