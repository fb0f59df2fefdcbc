// bound.pages{page=2MiB}: every allocation in its own device pages.
//
// Models an allocator that maps physical pages for each allocation and unmaps them when it is freed: it has no free
// memory and no external fragmentation, at the cost of the unused rest of each last page.
#pragma once

#include "analyzer/engine/device.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/policy_entry.h"

namespace memreel {

class BoundPages {
 public:
  struct Settings {
    Bytes page;
  };

  BoundPages(const Prepared&, Settings settings, SimulatedDevice& device) : page_(settings.page), device_(device) {}

  bool allocate(std::uint32_t, Bytes size, std::uint32_t) {
    const Bytes pages = rounded(size);
    if (!device_.extend(pages)) return false;
    use_.allocated += pages;
    use_.reserved += pages;
    ++calls_.map;
    return true;
  }
  void free_requested(std::uint32_t, Bytes size) {
    const Bytes pages = rounded(size);
    device_.shrink(pages);
    use_.allocated -= pages;
    use_.reserved -= pages;
    ++calls_.unmap;
  }
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return {}; }
  const DriverCalls& driver_calls() const { return calls_; }

 private:
  Bytes rounded(Bytes size) const { return round_up(std::max(size, 1_B), page_); }

  Bytes page_;
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;
};

PolicyEntry bound_pages_entry();

}  // namespace memreel
