// SPDX-License-Identifier: Apache-2.0
// Lower bounds: what any allocator needs at least.
#pragma once

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"

namespace memreel {

// bound.live: the bytes requested and not freed, a lower bound for every allocator.
//
// A bound, not an allocator: no rounding, no placement, reserved equals live at every instant.

struct Measures;

class BoundLive {
 public:
  struct Settings {};

  BoundLive(const Prepared&, Settings, SimulatedDevice& device) : device_(device) {}

  bool allocate(std::uint32_t, Bytes size, std::uint32_t) {
    if (!device_.extend(size)) return false;
    use_.allocated += size;
    use_.reserved += size;
    return true;
  }
  void free_requested(std::uint32_t, Bytes size) {
    device_.shrink(size);
    use_.allocated -= size;
    use_.reserved -= size;
  }
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}

  /// Processes rows `begin` .. `end` - 1 without a branch per row. Returns false, having done nothing, if any of them
  /// would fail.
  bool run_at_once(const Prepared& heap, std::size_t begin, std::size_t end, Bytes& live, Measures& measures);

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return {}; }
  const DriverCalls& driver_calls() const { return calls_; }

 private:
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;  // none
};

PolicyEntry bound_live_entry();

// bound.pages{page=2MiB}: every allocation in its own device pages.
//
// Models an allocator that maps physical pages for each allocation and unmaps them when it is freed: it has no free
// memory and no external fragmentation, at the cost of the unused rest of each last page.

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
