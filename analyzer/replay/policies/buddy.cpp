// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/buddy.h"

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {

bool Buddy::grow(unsigned order) {
  const Bytes size = std::max(bytes_of(order), settings_.max);
  if (!device_.extend(size)) {
    empty_cache();
    if (!device_.extend(size)) return false;
  }
  ++calls_.malloc;
  use_.reserved += size;
  const auto region_order = static_cast<unsigned>(std::countr_zero(size.count));
  auto& vacant = vacant_[region_order];
  Address address;
  if (vacant.empty()) {
    address = Address{round_up(Bytes{end_.value}, size).count};
    end_ = address + size;
  } else {
    address = vacant.back();
    vacant.pop_back();
  }
  put_free(table_.add(address, size, 0), region_order);
  return true;
}

void Buddy::empty_cache() {
  for (auto order = static_cast<unsigned>(std::countr_zero(settings_.max.count)); order < orders; ++order) {
    std::vector<BlockId> regions;
    lists_.for_each(order, [&](BlockId id) {
      if (!table_[id].is_split()) regions.push_back(id);
    });
    for (const BlockId id : regions) {
      const Block region = table_[id];
      take_out(id, order);
      table_.remove(id);
      vacant_[order].push_back(region.address);
      use_.reserved -= region.size;
      device_.shrink(region.size);
      ++calls_.free;
      ++calls_.sync;  // cudaFree waits for the device
    }
  }
}

PolicyEntry buddy_entry() {
  return {.info = {.name = "buddy",
                   .description = "powers of two, split in halves and merged again",
                   .parameters = {{"min", "512", AllowedValues::power_of_two(16_B, 1_GiB * 1024),
                                   "the smallest block; at most `max`"},
                                  {"max", "32MiB", AllowedValues::power_of_two(64_KiB, 1_GiB * 1024),
                                   "the size of a segment, and the largest block that is split"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const Bytes max = size_of(spec, "max");
            const auto min = size_within(spec, "min", 16_B, max);
            if (!min) return min.error();
            return BoundPolicy{.spec = spec,
                               .unit = max,
                               .run = [settings = BuddySettings{.min = *min, .max = max}](const Prepared& heap,
                                                                                          const RunOptions& options) {
                                 return run_policy<Buddy>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
