// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/vpmm.h"

#include <algorithm>
#include <bit>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {
namespace {

// Above all addresses that the allocator of small requests may use.
constexpr Address first_address{std::uint64_t{1} << 46U};

}  // namespace

Vpmm::Vpmm(const Prepared& heap, const VpmmSettings& settings, SimulatedDevice& device)
    : settings_(settings),
      device_(device),
      small_(heap, GrowingRangeSettings{}, device),
      gaps_(table_, static_cast<unsigned>(std::countr_zero(settings.page.count))),
      region_of_(heap.slot_count + 1, BlockId::none),
      end_(first_address) {
  std::map<StreamId, std::uint32_t> numbers{{StreamId::default_stream, 0}};
  for (const PoolStream& pool_stream : heap.pool_streams)
    stream_of_pool_stream_.push_back(
        numbers.try_emplace(pool_stream.stream, static_cast<std::uint32_t>(numbers.size())).first->second);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    streams_.push_back(
        {.stream = {}, .free = BestFitIndex(table_, static_cast<unsigned>(std::countr_zero(settings.page.count)))});
  for (const auto& [stream, number] : numbers) streams_[number].stream = stream;
  largest_.resize(streams_.size());
  if (settings_.pages > 0) gather(settings_.page * settings_.pages, 0);
}

void Vpmm::with_small(auto action) {
  const HeapUse before = small_.use();
  const std::uint64_t mapped = small_.driver_calls().map;
  action();
  const HeapUse& after = small_.use();
  use_.allocated = use_.allocated + after.allocated - before.allocated;
  use_.reserved = use_.reserved + after.reserved - before.reserved;
  use_.free = use_.free + after.free - before.free;
  calls_.map += small_.driver_calls().map - mapped;
}

bool Vpmm::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  if (requested < settings_.page) {
    region_of_[slot] = BlockId::none;
    bool served = false;
    with_small([&] { served = small_.allocate(slot, requested, pool_stream); });
    return served;
  }
  const Bytes size = round_up(requested, settings_.page);
  const std::uint32_t stream = stream_of_pool_stream_[pool_stream];
  BlockId region = find(size, stream);
  if (region == BlockId::none) region = gather(size, stream);
  if (region == BlockId::none) return false;
  take_out(region);
  if (table_[region].size > size) {
    const BlockId front = table_.split_front(region, size);
    put_free(region, stream, age_[index(region)]);
    region = front;
  }
  table_[region].state = BlockState::allocated;
  table_[region].arena = stream;
  use_.allocated += size;
  region_of_[slot] = region;
  return true;
}

void Vpmm::free_requested(std::uint32_t slot, Bytes requested) {
  if (region_of_[slot] == BlockId::none) {
    with_small([&] { small_.free_requested(slot, requested); });
    return;
  }
  Block& region = table_[region_of_[slot]];
  region.state = BlockState::pending;
  use_.allocated -= region.size;
}

void Vpmm::free_completed(std::uint32_t slot, Bytes requested) {
  const BlockId region = region_of_[slot];
  if (region == BlockId::none)
    with_small([&] { small_.free_completed(slot, requested); });
  else
    add_free(region, table_[region].arena);
}

void Vpmm::device_synchronized() {
  for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) unmap_left(stream);
}

void Vpmm::stream_synchronized(std::uint32_t pool_stream) { unmap_left(stream_of_pool_stream_[pool_stream]); }

Bytes Vpmm::largest_free() const { return std::max(small_.largest_free(), largest_.largest()); }

/// A free region of at least `size` bytes that the stream may use now, or none.
BlockId Vpmm::find(Bytes size, std::uint32_t stream) {
  BlockId best = streams_[stream].free.find(size);
  if (best != BlockId::none) return best;
  const auto key = [&](BlockId id) { return std::pair(table_[id].size, table_[id].address); };
  for (std::size_t other = largest_.first(size); other < streams_.size(); other = largest_.first(size, other + 1)) {
    if (other == stream) continue;
    for (const auto& [age, id] : streams_[other].by_age) {
      if (age >= streams_[other].done_before) break;
      if (table_[id].size >= size && (best == BlockId::none || key(id) < key(best))) best = id;
    }
  }
  return best;
}

/// Makes a free region of at least `size` bytes out of new pages and pages of other free regions. None if the device
/// refuses the pages.
BlockId Vpmm::gather(Bytes size, std::uint32_t stream) {
  const Bytes missing = size > free_pages_ ? size - free_pages_ : 0_B;
  if (!device_.extend(missing)) return BlockId::none;
  use_.reserved += missing;
  BlockId rest = take_gap(size);
  BlockId region = BlockId::none;
  if (missing > 0_B) {
    calls_.map += missing / settings_.page;
    region = add_free(carve(rest, missing), stream);
  }
  Bytes still = size - std::min(size, region == BlockId::none ? 0_B : table_[region].size);
  Bytes moved;
  const auto& own = streams_[stream].by_age;
  while (still > 0_B && !own.empty() && own.begin()->second != region) {
    const Bytes taken = move_pages(own.begin()->second, still);
    still -= taken;
    moved += taken;
  }
  while (still > 0_B) {
    const Bytes taken = move_pages(oldest_of_others(stream), still);
    still -= taken;
    moved += taken;
  }
  if (moved > 0_B) {
    calls_.map += moved / settings_.page;
    region = add_free(carve(rest, moved), stream);
  }
  if (rest != BlockId::none) make_gap(rest);
  return region;
}

/// Removes a gap of at least `size` bytes from the gaps and returns it.
BlockId Vpmm::take_gap(Bytes size) {
  BlockId found = gaps_.find(size);
  if (found == BlockId::none) {
    const Bytes reservation = std::max(addresses_at_once, size);
    make_gap(table_.add(end_, reservation, gap));
    end_ = end_ + reservation;
    found = gaps_.find(size);
  }
  gaps_.erase(found);
  return found;
}

/// Cuts `size` bytes off the front of what was taken from a gap; sets `from` to none if nothing is left.
BlockId Vpmm::carve(BlockId& from, Bytes size) {
  if (table_[from].size == size) return std::exchange(from, BlockId::none);
  return table_.split_front(from, size);
}

/// Takes up to `wanted` bytes of pages from the front of a free region; its addresses stay behind.
Bytes Vpmm::move_pages(BlockId from, Bytes wanted) {
  const std::uint32_t stream = table_[from].arena;
  take_out(from);
  BlockId gone = from;
  if (table_[from].size > wanted) {
    gone = table_.split_front(from, wanted);
    table_[gone].state = BlockState::pending;
    add_free(from, stream);
  }
  table_[gone].state = BlockState::pending;
  table_[gone].arena = left;
  left_.push_back({gone, stream});
  return table_[gone].size;
}

BlockId Vpmm::oldest_of_others(std::uint32_t stream) const {
  std::pair oldest{~std::uint64_t{0}, BlockId::none};
  for (std::size_t other = largest_.first(1_B); other < streams_.size(); other = largest_.first(1_B, other + 1))
    if (other != stream) oldest = std::min<std::pair<std::uint64_t, BlockId>>(oldest, *streams_[other].by_age.begin());
  return oldest.second;
}

/// Adds a region freed on a stream, merged with its free neighbours of that stream.
BlockId Vpmm::add_free(BlockId id, std::uint32_t stream) {
  const auto joins = [&](const Block& near) { return near.state == BlockState::free && near.arena == stream; };
  table_.absorb_neighbours(id, joins, [&](BlockId neighbour) { take_out(neighbour); });
  put_free(id, stream, frees_++);
  return id;
}

void Vpmm::put_free(BlockId id, std::uint32_t stream, std::uint64_t age) {
  Block& block = table_[id];
  block.state = BlockState::free;
  block.arena = stream;
  if (age_.size() < table_.limit()) age_.resize(table_.limit());
  age_[index(id)] = age;
  streams_[stream].free.insert(id);
  largest_.set(stream, streams_[stream].free.largest());
  streams_[stream].by_age.emplace(age, id);
  use_.free += block.size;
  free_pages_ += block.size;
}

void Vpmm::take_out(BlockId id) {
  const Block& block = table_[id];
  streams_[block.arena].free.erase(id);
  largest_.set(block.arena, streams_[block.arena].free.largest());
  streams_[block.arena].by_age.erase(age_[index(id)]);
  use_.free -= block.size;
  free_pages_ -= block.size;
}

void Vpmm::make_gap(BlockId id) {
  const auto joins = [](const Block& near) { return near.arena == gap; };
  table_.absorb_neighbours(id, joins, [&](BlockId neighbour) { gaps_.erase(neighbour); });
  table_[id].state = BlockState::pending;
  table_[id].arena = gap;
  gaps_.insert(id);
}

/// The host waited for a stream: unmaps the addresses that pages left on it.
void Vpmm::unmap_left(std::uint32_t stream) {
  streams_[stream].done_before = frees_;
  std::erase_if(left_, [&](const Left& gone) {
    if (gone.stream != stream) return false;
    ++calls_.unmap;
    make_gap(gone.block);
    return true;
  });
}

PolicyEntry vpmm_entry() {
  return {
      .info = {.name = "vpmm",
               .description = "OpenVM's virtual pool: free pages are remapped to where a request fits",
               .parameters = {{"page", "2MiB", AllowedValues::power_of_two(2_MiB, 1_GiB), "what is mapped at a time"},
                              {"pages", "0", AllowedValues::checked("a number of pages"),
                               "mapped before the program begins"}}},
      .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
        const Bytes page = size_of(spec, "page");
        const auto pages = parse_integer(spec.parameters.at("pages"));
        if (!pages || *pages > BestFitIndex::max_size / page) return bad_parameter(spec, "pages", "a number of pages");
        return BoundPolicy{.spec = spec,
                           .unit = 2_MiB,
                           .run = [settings = VpmmSettings{.page = page, .pages = *pages}](const Prepared& heap,
                                                                                           const RunOptions& options) {
                             return run_policy<Vpmm>(heap, settings, options);
                           }};
      }};
}

}  // namespace memreel
