// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/analysis/history/device_tree.h"
#include "analyzer/analysis/history/levels.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

struct Range {
  std::uint64_t begin = 0, end = 0;
};

/// The heaps of a device as lists of what they have, and their sums counted byte by byte.
class NaiveDevice {
 public:
  struct OfHeap {
    bool is_driver = false, has_segments = false;
    std::uint32_t depth = 0;
    std::vector<Range> allocations, segments;  // of the driver: mappings
    std::uint64_t created = 0;
    std::map<std::uint64_t, PoolId> pool_of;  // of the driver: by where an allocation begins
  };
  std::map<HeapId, OfHeap> heaps;

  /// `of_driver`: of the driver's heap, by pool.
  std::map<HeapId, HeapPart> parts(std::map<PoolId, Bytes>& of_driver, PoolId created_pool) const {
    std::map<HeapId, HeapPart> parts;
    std::uint64_t backed = 0;
    for (std::uint64_t byte = 0; byte < most; ++byte) {
      const OfHeap* holder = nullptr;
      HeapId holder_id{}, user_id{};
      std::uint32_t innermost = 0;
      bool in_driver = false, is_mapped = false, is_used = false;
      for (const auto& [id, heap] : heaps) {
        if (heap.is_driver) {
          in_driver |= has(heap.allocations, byte);
          is_mapped |= has(heap.segments, byte);
          continue;
        }
        if (!has(heap.has_segments ? heap.segments : heap.allocations, byte)) continue;
        if (holder == nullptr || heap.depth < holder->depth) holder = &heap, holder_id = id;
        if (heap.has_segments) innermost = std::max(innermost, heap.depth);
      }
      std::uint32_t deepest = 0;
      for (const auto& [id, heap] : heaps)
        if (has(heap.allocations, byte) && heap.depth >= innermost && (!is_used || heap.depth > deepest)) {
          is_used = true;
          deepest = heap.depth;
          user_id = id;
        }
      if (holder == nullptr && in_driver) holder_id = driver();
      if (holder != nullptr || in_driver) parts[holder_id].held += 1_B;
      if (holder == nullptr && in_driver)
        of_driver[std::prev(heaps.at(driver()).pool_of.upper_bound(byte))->second] += 1_B;
      if (is_used) parts[user_id].live += 1_B;
      if (holder != nullptr && !in_driver && is_mapped) ++backed;
    }
    const Bytes unused{created() - std::min(backed, created())};
    parts[driver()].held += unused;
    parts[driver()].live += unused;
    of_driver[created_pool] += unused;
    std::erase_if(of_driver, [](const auto& part) { return part.second == 0_B || part.first == PoolId::default_pool; });
    return parts;
  }

  static bool has(const std::vector<Range>& ranges, std::uint64_t byte) {
    return std::ranges::any_of(ranges, [&](const Range& r) { return r.begin <= byte && byte < r.end; });
  }

  static constexpr std::uint64_t most = 96;

 private:
  HeapId driver() const {
    return std::ranges::find_if(heaps, [](const auto& heap) { return heap.second.is_driver; })->first;
  }
  std::uint64_t created() const { return heaps.at(driver()).created; }
};

/// A program with driver allocations, created memory, and pools made of them, of each other, or of parts of them.
class RandomProgram {
 public:
  RandomProgram(std::uint32_t seed, bool creates, bool is_whole)
      : random_(seed), creates_(creates), is_whole_(is_whole) {
    build_.trace().tables.heaps.resize(1);
    for (std::int32_t device = 0; device < 2; ++device) {
      add_heap(device, Level::driver, HeapId::none, 0);
      std::vector<HeapId> inside{heaps_.back()};
      for (int pool = 0; pool < 4; ++pool) {
        const HeapId parent = inside[below(inside.size())];
        add_heap(device, Level::framework, parent, devices[device].heaps.at(parent).depth + 1);
        inside.push_back(heaps_.back());
      }
    }
    const auto add_pool = [&](const char* name, std::uint64_t key) {
      build_.trace().tables.pools.push_back({.name = build_.string(name), .key_low = key});
      return PoolId{static_cast<std::uint32_t>(build_.trace().tables.pools.size() - 1)};
    };
    created_ = add_pool("physical", 0);
    pools_ = {PoolId::default_pool, add_pool("async", 7), add_pool("async", 8), add_pool("managed", 0)};
  }

  /// One more event, or several for a pool that is destroyed.
  void step() {
    const HeapId id = heaps_[below(heaps_.size())];
    NaiveDevice::OfHeap& heap = of(id);
    const std::size_t what = below(20);
    if (what == 0 && !heap.is_driver) {
      while (!heap.allocations.empty()) free(id, 0);
      while (!heap.segments.empty()) remove_segment(id, 0);
    } else if (what < 9 && !heap.is_driver && heap.has_segments) {
      what < 6 ? add_segment(id) : remove_segment(id, below(heap.segments.size() + 1));
    } else if (what < 4 && heap.is_driver && creates_) {
      create(id);
    } else {
      what < 16 ? allocate(id) : free(id, below(heap.allocations.size() + 1));
    }
  }

  /// Of what each device holds, `contexts` bytes more are in use.
  void sample(Bytes contexts, Bytes total) {
    for (const NaiveDevice& device : devices) {
      Bytes used = contexts;
      std::map<PoolId, Bytes> of_driver;
      for (const auto& [heap, part] : device.parts(of_driver, created_)) used += part.held;
      const HeapId driver = device.heaps.begin()->first;
      build_.push(
          {.kind = EventKind::memory_info, .origin = origins_.at(driver), .size = used, .value = (total - used).count});
    }
  }

  PoolId created_pool() const { return created_; }
  Trace& trace() { return build_.trace(); }
  const std::vector<HeapId>& heap_ids() const { return heaps_; }

  NaiveDevice devices[2];

 private:
  std::size_t below(std::size_t n) {
    return n == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  void add_heap(std::int32_t device, Level level, HeapId parent, std::uint32_t depth) {
    const HeapId id = build_.heap("heap" + std::to_string(heaps_.size()), level, device);
    build_.trace().tables.heaps[index(id)].parent = parent;
    devices[device].heaps[id] = {.is_driver = level == Level::driver,
                                 .has_segments = level == Level::framework && below(4) > 0,
                                 .depth = depth,
                                 .allocations = {},
                                 .segments = {}};
    origins_[id] = build_.origin(id);
    heaps_.push_back(id);
  }
  NaiveDevice::OfHeap& of(HeapId id) { return devices[device_of(id)].heaps.at(id); }
  std::int32_t device_of(HeapId id) { return trace().tables[id].device; }
  HeapId parent_of(HeapId id) { return trace().tables[id].parent; }

  /// A free place in one of `ranges`, which are not `taken`.
  std::optional<Range> place_in(const std::vector<Range>& ranges, const std::vector<Range>& taken, bool whole) {
    if (ranges.empty()) return std::nullopt;
    Range place = ranges[below(ranges.size())];
    if (!whole) {
      place.begin += below(place.end - place.begin);
      place.end = place.begin + 1 + below(place.end - place.begin);
    }
    const auto overlaps = [&](const Range& r) { return r.begin < place.end && place.begin < r.end; };
    if (std::ranges::any_of(taken, overlaps)) return std::nullopt;
    return place;
  }

  void add_segment(HeapId id) {
    // A pool's memory is its parent's allocation, created memory that is mapped, or in a few cases from elsewhere.
    const NaiveDevice::OfHeap& parent = of(parent_of(id));
    std::vector<Range> from = parent.allocations;
    if (parent.is_driver) from.insert(from.end(), parent.segments.begin(), parent.segments.end());
    if (const auto place = place_in(from, taken_by_siblings(id), is_whole_)) {
      build_.event(EventKind::segment_alloc, origins_[id], {place->begin}, Bytes{place->end - place->begin});
      of(id).segments.push_back(*place);
    }
  }

  std::vector<Range> taken_by_siblings(HeapId id) {
    std::vector<Range> taken;
    for (const auto& [other, heap] : devices[device_of(id)].heaps)
      if (parent_of(other) == parent_of(id) && !heap.is_driver) {
        const std::vector<Range>& has = heap.has_segments ? heap.segments : heap.allocations;
        taken.insert(taken.end(), has.begin(), has.end());
      }
    return taken;
  }

  void remove_segment(HeapId id, std::size_t which) {
    std::vector<Range>& segments = of(id).segments;
    if (which >= segments.size()) return;
    const Range gone = segments[which];
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(which));
    build_.event(EventKind::segment_free, origins_[id], {gone.begin}, Bytes{gone.end - gone.begin});
  }

  void allocate(HeapId id) {
    NaiveDevice::OfHeap& heap = of(id);
    std::vector<Range> from{{0, NaiveDevice::most}}, taken = heap.allocations;
    if (heap.is_driver) {
      taken.insert(taken.end(), heap.segments.begin(), heap.segments.end());
    } else if (heap.has_segments) {
      from = heap.segments;
    } else {
      from = of(parent_of(id)).allocations;
      taken = taken_by_siblings(id);
    }
    const auto place = place_in(from, taken, false);
    if (!place) return;
    const PoolId pool = heap.is_driver ? pools_[below(pools_.size())] : PoolId::default_pool;
    const OriginId origin = pool == PoolId::default_pool ? origins_[id] : build_.origin(id, 0, pool);
    const AllocationId number = build_.alloc(origin, {place->begin}, Bytes{place->end - place->begin});
    heap.pool_of[place->begin] = pool;
    numbers_[{id, place->begin}] = number;
    heap.allocations.push_back(*place);
  }

  void free(HeapId id, std::size_t which) {
    std::vector<Range>& allocations = of(id).allocations;
    if (which >= allocations.size()) return;
    build_.free(numbers_.at({id, allocations[which].begin}));
    of(id).pool_of.erase(allocations[which].begin);
    allocations.erase(allocations.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// cuMemCreate and cuMemMap; never undone.
  void create(HeapId driver) {
    std::vector<Range> taken = of(driver).allocations;
    taken.insert(taken.end(), of(driver).segments.begin(), of(driver).segments.end());
    const auto place = place_in({{0, NaiveDevice::most}}, taken, false);
    if (!place) return;
    const Bytes size{place->end - place->begin};
    build_.alloc(build_.origin(driver, 0, created_), {++handle_}, size);
    build_.event(EventKind::segment_map, origins_[driver], {place->begin}, size);
    of(driver).created += size.count;
    of(driver).segments.push_back(*place);
  }

  TraceBuilder build_;
  std::mt19937 random_;
  bool creates_, is_whole_;
  std::vector<HeapId> heaps_;
  PoolId created_{};
  std::vector<PoolId> pools_;  // of the driver's allocations
  std::uint64_t handle_ = 0;
  std::map<HeapId, OriginId> origins_;
  std::map<std::pair<HeapId, std::uint64_t>, AllocationId> numbers_;
};

Bytes at_end(const std::map<std::int32_t, std::vector<HeldFrom>>& series, std::int32_t device) {
  const auto of = series.find(device);
  return of == series.end() || of->second.empty() ? 0_B : of->second.back().held;
}

/// The rows add up to the device, and none has more than it held.
void expect_sound(const std::vector<DeviceTreeRow>& rows, const DeviceInstant& peak) {
  Bytes from_device, live;
  for (const DeviceTreeRow& row : rows) {
    if (row.node > TreeNode::part) continue;
    from_device += row.from_device;
    live += row.live;
    EXPECT_LE(row.whole, peak.held);
    EXPECT_LE(row.whole, row.peak);
    EXPECT_LE(row.peak, peak.held);
    EXPECT_LE(row.itself, row.whole);
    EXPECT_EQ(row.depth, row.parent ? rows[*row.parent].depth + 1 : 0U);
  }
  EXPECT_EQ(from_device, peak.held);
  EXPECT_EQ(live, peak.live);
}

TEST(DeviceMemory, EqualsASumOverEachByteAtEveryEvent) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    RandomProgram program(seed, seed % 3 == 0, seed % 2 == 0);
    Bytes most_held[2], most_live[2];
    for (int step = 0; step < 40; ++step) {
      program.step();
      if (step % 7 == 3) program.sample(100_B, 1000_B);
      const std::vector<DeviceMemory> devices = device_memory(program.trace());
      const auto series = held_beside(program.trace(), {});
      const std::vector<HeapId> some{program.heap_ids()[1], program.heap_ids()[3], program.heap_ids()[6]};
      const auto beside = held_beside(program.trace(), some);
      for (const DeviceMemory& device : devices) {
        Bytes held, live, of_some;
        std::map<PoolId, Bytes> of_driver;
        for (const auto& [heap, part] : program.devices[device.device].parts(of_driver, program.created_pool())) {
          held += part.held;
          live += part.live;
          if (std::ranges::find(some, heap) != some.end()) of_some += part.held;
        }
        ASSERT_EQ(at_end(series, device.device), held) << "seed " << seed << ", step " << step;
        ASSERT_EQ(at_end(beside, device.device), held - of_some) << "seed " << seed << ", step " << step;
        Bytes& peak_held = most_held[device.device];
        Bytes& peak_live = most_live[device.device];
        if (held > peak_held && held == device.peak_held.held) {
          std::map<PoolId, Bytes> parts;
          for (const DriverPart& part : device.driver_parts)
            if (part.held > 0_B) parts[part.pool] = part.held;
          ASSERT_EQ(parts, of_driver) << "seed " << seed << ", step " << step;
        }
        ASSERT_EQ(device.samples.has_value(), step >= 3);
        if (device.samples) {
          ASSERT_EQ(*device.samples, (DeviceSamples{.total = 1000_B, .of_nobody = 100_B}))
              << "seed " << seed << ", step " << step;
        }
        // A step may be many events: what is freed only falls.
        peak_held = std::max(peak_held, held);
        peak_live = std::max(peak_live, live);
        ASSERT_GE(device.peak_held.held, peak_held) << "seed " << seed << ", step " << step;
        ASSERT_GE(device.peak_live.live, peak_live) << "seed " << seed << ", step " << step;
        if (seed % 3 != 0) {  // creating and mapping are two events
          ASSERT_EQ(device.peak_held.held, peak_held) << "seed " << seed << ", step " << step;
          ASSERT_EQ(device.peak_live.live, std::max(peak_live, device.peak_live.live));
        }
      }
    }
    for (const DeviceMemory& device : device_memory(program.trace())) {
      for (const DeviceInstant& peak : {device.peak_held, device.peak_live}) {
        Bytes held, live;
        for (const HeapPart& part : peak.parts) held += part.held, live += part.live;
        EXPECT_EQ(held, peak.held);
        EXPECT_EQ(live, peak.live);
        EXPECT_LE(peak.held, device.peak_held.held);
        EXPECT_LE(peak.live, peak.held);
      }
      for (const DeviceHeap& heap : device.heaps) EXPECT_LE(heap.peak_held, device.peak_held.held);
      EXPECT_EQ(tree_of(device).size(), device.heaps.size());
      expect_sound(tree_rows(device), device.peak_held);
    }
    // Linking levels never adds memory. It may take some: a pool's allocation is its own from its first segment on.
    if (seed % 3 == 0) continue;
    const std::vector<DeviceMemory> before = device_memory(program.trace());
    tie_levels(program.trace());
    for (const DeviceMemory& after : device_memory(program.trace()))
      EXPECT_LE(after.peak_held.held, std::ranges::find(before, after.device, &DeviceMemory::device)->peak_held.held)
          << "seed " << seed;
  }
}

TEST(DeviceMemory, PoolsAtOnceAddUpAndPoolsAfterEachOtherDoNot) {
  TraceBuilder build;
  const OriginId driver = build.origin(build.heap("cuda.driver", Level::driver, 0));
  const OriginId a = build.origin(build.heap("a", Level::framework, 0));
  const OriginId b = build.origin(build.heap("b", Level::framework, 0));
  const auto fill = [&](OriginId pool, Address address, Bytes size) {
    build.event(EventKind::segment_alloc, pool, address, size);
    return build.alloc(pool, address, Bytes{size.count / 2});
  };
  fill(a, {0x1000000}, 8_MiB);
  build.event(EventKind::segment_free, a, {0x1000000}, 8_MiB);
  fill(b, {0x1000000}, 8_MiB);
  build.alloc(driver, {0x5000000}, 3_MiB);

  const std::vector<DeviceMemory> devices = device_memory(build.trace());

  ASSERT_EQ(devices.size(), 1U);
  EXPECT_TRUE(devices[0].has_driver);
  EXPECT_EQ(devices[0].peak_held.held, 11_MiB);
  ASSERT_EQ(devices[0].peak_held.parts.size(), 3U);
  EXPECT_EQ(devices[0].peak_held.parts[0].held, 3_MiB);  // of the driver, in the order of the table
  EXPECT_EQ(devices[0].peak_live.live, 11_MiB);          // a's block was never freed
}

TEST(DeviceMemory, APoolInAnotherIsNotCountedTwice) {
  TraceBuilder build;
  const HeapId outer = build.heap("outer", Level::framework, 0);
  const HeapId inner = build.heap("inner", Level::framework, 0);
  build.trace().tables.heaps[index(inner)].parent = outer;
  build.event(EventKind::segment_alloc, build.origin(outer), {0x1000000}, 64_MiB);
  build.alloc(build.origin(outer), {0x1000000}, 16_MiB);
  build.event(EventKind::segment_alloc, build.origin(inner), {0x1000000}, 16_MiB);
  build.alloc(build.origin(inner), {0x1000000}, 1_MiB);

  const DeviceMemory device = device_memory(build.trace()).at(0);

  EXPECT_FALSE(device.has_driver);
  EXPECT_EQ(device.peak_held.held, 64_MiB);
  EXPECT_EQ(device.peak_live.live, 16_MiB);  // before the inner pool took that block as its memory
  EXPECT_FALSE(device.heaps[0].is_inside);
  EXPECT_TRUE(device.heaps[1].is_inside);
}

TEST(DeviceMemory, ATreeSaysWhoseMemoryEachHeapIs) {
  TraceBuilder build;
  const HeapId driver = build.heap("cuda.driver", Level::driver, 0);
  const HeapId outer = build.heap("outer", Level::framework, 0);
  const HeapId named = build.heap("named", Level::framework, 0);
  const HeapId found = build.heap("found", Level::framework, 0);  // names no parent: addresses say where it is
  build.trace().tables.heaps[index(named)].parent = outer;
  build.event(EventKind::segment_alloc, build.origin(outer), {0x1000000}, 64_MiB);
  build.alloc(build.origin(outer), {0x1000000}, 16_MiB);
  build.alloc(build.origin(outer), {0x2000000}, 8_MiB);
  build.event(EventKind::segment_alloc, build.origin(named), {0x1000000}, 16_MiB);
  build.alloc(build.origin(named), {0x1000000}, 4_MiB);
  build.event(EventKind::segment_alloc, build.origin(found), {0x2000000}, 2_MiB);
  build.alloc(build.origin(driver), {0x9000000}, 4_MiB);

  const DeviceMemory device = device_memory(build.trace()).at(0);

  std::vector<std::pair<HeapId, std::uint32_t>> tree;
  for (const auto& [heap, depth] : tree_of(device)) tree.emplace_back(heap->heap, depth);
  EXPECT_EQ(tree, (std::vector<std::pair<HeapId, std::uint32_t>>{{driver, 0}, {outer, 1}, {named, 2}, {found, 2}}));
  std::vector<Bytes> whole, peaks;
  for (const HeapPart& part : device.peak_held.parts) whole.push_back(part.whole);
  for (const DeviceHeap& heap : device.heaps) peaks.push_back(heap.peak_whole);
  EXPECT_EQ(whole, (std::vector<Bytes>{68_MiB, 64_MiB, 16_MiB, 2_MiB}));
  EXPECT_EQ(peaks, (std::vector<Bytes>{68_MiB, 64_MiB, 16_MiB, 2_MiB}));
}

TEST(DeviceMemory, TheDriversHeapHasParts) {
  TraceBuilder build;
  const HeapId driver = build.heap("cuda.driver", Level::driver, 0);
  const HeapId mapped = build.heap("cuda.mapped", Level::driver, 0);
  const HeapId torch = build.heap("torch.cuda", Level::framework, 0);
  build.trace().tables.heaps[index(mapped)].parent = driver;
  const auto origin_in = [&](const char* name, std::uint64_t key) {
    build.trace().tables.pools.push_back({.name = build.string(name), .key_low = key});
    return build.origin(driver, 0, PoolId{static_cast<std::uint32_t>(build.trace().tables.pools.size() - 1)});
  };
  const OriginId async = origin_in("async", 0x10), created = origin_in("physical", 0), graph = origin_in("graph", 0);
  build.alloc(build.origin(driver), {0x1000000}, 3_MiB);
  build.alloc(async, {0x2000000}, 5_MiB);
  build.alloc(created, {77}, 4_MiB);
  build.event(EventKind::segment_map, build.origin(mapped), {0x3000000}, 4_MiB);
  build.event(EventKind::segment_map, build.origin(torch), {0x4000000}, 20_MiB);
  build.alloc(build.origin(torch), {0x4000000}, 6_MiB);
  build.push(
      {.kind = EventKind::memory_info, .origin = build.origin(driver), .size = 100_MiB, .value = (900_MiB).count});
  build.push({.kind = EventKind::memory_info, .origin = async, .size = 5_MiB, .value = (27_MiB).count});
  build.push({.kind = EventKind::memory_info, .origin = graph, .size = 1_MiB, .value = (7_MiB).count});

  const std::vector<DeviceMemory> devices = device_memory(build.trace());
  ASSERT_EQ(devices.size(), 1U);
  std::vector<std::tuple<std::string, std::uint32_t, Bytes, Bytes>> rows;
  for (const DeviceTreeRow& row : tree_rows(devices[0]))
    rows.emplace_back(name_of(build.trace().tables, row), row.depth, row.whole, row.itself);
  EXPECT_EQ(rows, (std::vector<std::tuple<std::string, std::uint32_t, Bytes, Bytes>>{
                      {"cuda.driver", 0, 32_MiB, 3_MiB},
                      {"cuda.mapped", 1, 24_MiB, 4_MiB},
                      {"torch.cuda", 2, 20_MiB, 20_MiB},
                      {"cuda.async 0x10", 1, 5_MiB, 5_MiB},
                      {"pools of cudaMallocAsync, unused", 0, 27_MiB, 27_MiB},
                      {"graphs", 0, 8_MiB, 8_MiB},
                      {"contexts, code, other processes", 0, 33_MiB, 33_MiB}}));
  expect_sound(tree_rows(devices[0]), devices[0].peak_held);
  ASSERT_TRUE(devices[0].samples);
  EXPECT_EQ(devices[0].samples->total, 1000_MiB);
}

TEST(DeviceMemory, HeapsThatAreInsideThemselvesAreTheDriversOwn) {
  TraceBuilder build;
  const HeapId in_a = build.heap("in a", Level::framework, 0);
  const HeapId a = build.heap("a", Level::framework, 0);
  const HeapId b = build.heap("b", Level::framework, 0);
  build.trace().tables.heaps[index(in_a)].parent = a;
  build.trace().tables.heaps[index(a)].parent = b;
  build.trace().tables.heaps[index(b)].parent = a;
  build.event(EventKind::segment_alloc, build.origin(a), {0x1000000}, 2_MiB);
  build.event(EventKind::segment_alloc, build.origin(b), {0x1000000}, 1_MiB);
  build.event(EventKind::segment_alloc, build.origin(in_a), {0x1000000}, 1_MiB);
  EXPECT_EQ(tree_of(device_memory(build.trace()).at(0)).size(), 3U);
}

}  // namespace
}  // namespace memreel
