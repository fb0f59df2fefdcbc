// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/gmlake.h"

#include <iterator>
#include <tuple>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {

Stitches::Id Stitches::add(Address address, const std::vector<BlockId>& blocks, std::uint32_t arena) {
  if (vacant_.empty()) {
    vacant_.push_back(static_cast<Id>(stitched_.size()));
    stitched_.emplace_back();
  }
  const Id id = vacant_.back();
  vacant_.pop_back();
  Stitched added{.address = address, .arena = arena};
  for (const BlockId block : blocks) {
    added.pieces.push_back({table_[block].address, table_[block].size});
    added.size += table_[block].size;
    list_of(block).push_back(id);
    enter(block);
  }
  added.used = added.size;
  stitched_[id] = std::move(added);
  return id;
}

void Stitches::remove(Id id) {
  for (const Extent& piece : stitched_[id].pieces) {
    auto at = by_address_.upper_bound(piece.address);
    if (at != by_address_.begin()) --at;
    while (at != by_address_.end() && at->first < piece.address + piece.size) {
      std::vector<Id>& list = over_[index(at->second)];
      std::erase(list, id);
      at = list.empty() ? by_address_.erase(at) : std::next(at);
    }
  }
  stitched_[id] = {};
  vacant_.push_back(id);
}

std::vector<Stitches::Id> Stitches::all() const {
  std::vector<Id> ids;
  for (Id id = 0; id < stitched_.size(); ++id)
    if (stitched_[id].size > 0_B) ids.push_back(id);
  return ids;
}

const std::vector<Stitches::Id>& Stitches::over(BlockId id) const {
  static const std::vector<Id> nothing;
  return index(id) < over_.size() ? over_[index(id)] : nothing;
}

Bytes Stitches::common(Id id, BlockId block) const {
  const Address begin = table_[block].address, end = begin + table_[block].size;
  Bytes common;
  for (const Extent& piece : stitched_[id].pieces) {
    const Address from = std::max(begin, piece.address), to = std::min(end, piece.address + piece.size);
    if (from < to) common += to - from;
  }
  return common;
}

BlockId Stitches::block_at(Address address) const { return std::prev(by_address_.upper_bound(address))->second; }

void Stitches::was_split(BlockId front, BlockId tail) {
  if (over(tail).empty()) return;
  const std::vector<Id> both = std::exchange(list_of(tail), {});
  by_address_.erase(table_[front].address);
  for (const BlockId half : {front, tail}) {
    list_of(half).clear();
    for (const Id id : both)
      if (common(id, half) > 0_B) list_of(half).push_back(id);
    enter(half);
  }
}

void Stitches::will_merge(BlockId id, BlockId gone) {
  if (over(id).empty() && over(gone).empty()) return;
  by_address_.erase(table_[id].address);
  by_address_.erase(table_[gone].address);
  const std::vector<Id> other = std::exchange(list_of(gone), {});
  std::vector<Id>& list = list_of(id);
  for (const Id stitched : other)
    if (std::ranges::find(list, stitched) == list.end()) list.push_back(stitched);
}

void Stitches::was_merged(BlockId id) { enter(id); }

void Stitches::will_remove(BlockId id) {
  if (over(id).empty()) return;
  by_address_.erase(table_[id].address);
  list_of(id).clear();
}

std::vector<Stitches::Id>& Stitches::list_of(BlockId id) {
  if (over_.size() < table_.limit()) over_.resize(table_.limit());
  return over_[index(id)];
}

void Stitches::enter(BlockId id) {
  if (!over(id).empty()) by_address_[table_[id].address] = id;
}

namespace {

constexpr unsigned unit_log2 = 9;              // TorchSettings::min_block
constexpr Bytes most_stitched = 1_GiB * 1000;  // autoGC
constexpr Address last_address{std::uint64_t{1} << 62U};

}  // namespace

Gmlake::Gmlake(const Prepared& heap, const GmlakeSettings& settings, SimulatedDevice& device)
    : settings_(settings), device_(device), taken_(heap.slot_count + 1) {
  std::map<std::tuple<PoolId, bool, StreamId>, std::uint32_t> numbers;
  const auto number_of = [&](const PoolStream& pool_stream, bool small) {
    const auto [at, is_new] =
        numbers.try_emplace({pool_stream.pool, small, pool_stream.stream}, static_cast<std::uint32_t>(arenas_.size()));
    if (is_new)
      arenas_.push_back({.free = BestFitIndex(table_, unit_log2),
                         .small = small,
                         .pool = pool_stream.pool,
                         .stream = pool_stream.stream});
    return at->second;
  };
  for (const PoolStream& pool_stream : heap.pool_streams) {
    const std::uint32_t large = number_of(pool_stream, false);
    arenas_of_pool_stream_.push_back({large, number_of(pool_stream, true)});
  }
  largest_.resize(arenas_.size());
}

Bytes Gmlake::rounded(Bytes requested) {
  const Bytes size = TorchSettings::round_to_block(requested);
  return TorchSettings::is_small(size) ? size : round_up(size, page);
}

bool Gmlake::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  const Bytes size = rounded(requested);
  const std::uint32_t arena = arenas_of_pool_stream_[pool_stream][TorchSettings::is_small(size)];
  const Taken taken = take(arena, size);
  if (taken.is_nothing()) return false;
  taken_[slot] = taken;
  use_.allocated += size;
  return true;
}

void Gmlake::free_requested(std::uint32_t slot, Bytes /*requested*/) {
  use_.allocated -= extent_of(slot).size;
  taken_[slot].pending = true;
  ++pending_;
}

void Gmlake::free_completed(std::uint32_t slot, Bytes /*requested*/) {
  if (taken_[slot].is_nothing()) return;  // the policy already waited for the device, before the recorded run did
  --pending_;
  complete(slot);
}

void Gmlake::empty_cache() {
  release_everything();
  unmap_unused_stitches();
}

Extent Gmlake::extent_of(std::uint32_t slot) const {
  const Taken& taken = taken_[slot];
  if (taken.stitched != Stitches::none) return {stitches_[taken.stitched].address, stitches_[taken.stitched].taken};
  return {table_[taken.block].address, table_[taken.block].size};
}

Gmlake::Taken Gmlake::take(std::uint32_t arena, Bytes size) {
  if (const BlockId block = arenas_[arena].free.find(size); block != BlockId::none) return {.block = cut(block, size)};
  Taken taken = take_stitched(arena, size);
  if (taken.is_nothing()) taken = stitch(arena, size, 0);
  if (taken.is_nothing()) taken = take_new_segment(arena, size);
  if (taken.is_nothing()) taken = stitch(arena, size, 1);
  if (taken.is_nothing()) {
    release_everything();
    taken = take_new_segment(arena, size);
  }
  if (taken.is_nothing()) taken = stitch(arena, size, 2);
  return taken;
}

Gmlake::Taken Gmlake::take_new_segment(std::uint32_t arena, Bytes size) {
  const Bytes segment = TorchSettings{}.segment_size(size);
  if (end_ > last_address || !device_.extend(segment)) return {};
  use_.reserved += segment;
  if (arenas_[arena].small)
    ++calls_.malloc;
  else
    calls_.map += segment / page;
  const BlockId block = table_.add(reserve_addresses(segment), segment, arena);
  put_free(block);
  return {.block = cut(block, size)};
}

/// Takes the front of a stitched block whose pages are all free.
Gmlake::Taken Gmlake::take_stitched(std::uint32_t arena, Bytes size) {
  auto& available = arenas_[arena].stitched;
  const auto found = available.lower_bound({size, Address{}});
  if (found == available.end()) return {};
  if (static_cast<double>(found->first.first.count) > static_cast<double>(size.count) * settings_.reuse_limit)
    return {};
  const Stitches::Id id = found->second;
  available.erase(found);
  stitches_[id].taken = size;
  Bytes left = size;
  for (const Extent& piece : stitches_[id].pieces) {
    if (left == 0_B) break;
    const Bytes used = std::min(piece.size, left);
    use_range({piece.address, used});
    left -= used;
  }
  return {.stitched = id};
}

/// Stitches free blocks together, if this attempt allows it and they are large enough.
Gmlake::Taken Gmlake::stitch(std::uint32_t arena, Bytes size, unsigned attempt) {
  if (attempt < settings_.level || arenas_[arena].small || size < settings_.frag_limit || end_ > last_address)
    return {};
  const std::vector<BlockId> free = arenas_[arena].free.ordered();
  if (free.size() < 2) return {};
  std::vector<BlockId> blocks;
  Bytes sum;
  for (auto id = free.rbegin(); id != free.rend() && sum < size; ++id) {
    blocks.push_back(*id);
    sum += table_[*id].size;
  }
  if (sum < size) return {};
  blocks.back() = cut(blocks.back(), table_[blocks.back()].size - (sum - size));
  for (const BlockId block : blocks) {
    if (block == blocks.back()) break;
    take_out(block);
    mark_used(block);
  }
  const Stitches::Id id = stitches_.add(reserve_addresses(size), blocks, arena);
  stitches_[id].taken = size;
  calls_.map += size / page;
  stitched_bytes_ += size;
  if (stitched_bytes_ > most_stitched) unmap_unused_stitches();
  return {.stitched = id};
}

/// Takes the front of a free block; the remainder stays free.
BlockId Gmlake::cut(BlockId id, Bytes size) {
  take_out(id);
  if (table_[id].size - size >= (arenas_[table_[id].arena].small ? TorchSettings::min_block : page)) {
    const BlockId front = split(id, size);
    put_free(id);
    id = front;
  }
  mark_used(id);
  return id;
}

/// Takes a range of free pages under a stitched block.
void Gmlake::use_range(Extent range) {
  while (range.size > 0_B) {
    BlockId id = stitches_.block_at(range.address);
    take_out(id);
    if (table_[id].address < range.address) put_free(split(id, range.address - table_[id].address));
    if (table_[id].size > range.size) {
      const BlockId front = split(id, range.size);
      put_free(id);
      id = front;
    }
    mark_used(id);
    range = {range.address + table_[id].size, range.size - table_[id].size};
  }
}

void Gmlake::free_range(Extent range) {
  while (range.size > 0_B) {
    const BlockId id = stitches_.block_at(range.address);
    range = {range.address + table_[id].size, range.size - table_[id].size};
    make_free(id);
  }
}

/// The device is done with the memory of a slot.
void Gmlake::complete(std::uint32_t slot) {
  const Taken taken = std::exchange(taken_[slot], {});
  if (taken.stitched == Stitches::none) return make_free(taken.block);
  Bytes left = std::exchange(stitches_[taken.stitched].taken, 0_B);
  const std::vector<Extent> pieces = stitches_[taken.stitched].pieces;
  for (const Extent& piece : pieces) {
    if (left == 0_B) break;
    const Bytes used = std::min(piece.size, left);
    free_range({piece.address, used});
    left -= used;
  }
  if (stitches_[taken.stitched].doomed) unmap(taken.stitched);
}

void Gmlake::wait_for_pending() {
  if (pending_ == 0) return;
  ++calls_.sync;
  pending_ = 0;
  for (std::uint32_t slot = 0; slot < taken_.size(); ++slot)
    if (taken_[slot].pending) complete(slot);
}

void Gmlake::release_everything() {
  wait_for_pending();
  for (std::size_t a = largest_.first(1_B); a < arenas_.size(); a = largest_.first(1_B, a + 1)) {
    if (arenas_[a].pool != PoolId::default_pool) continue;
    for (const BlockId id : arenas_[a].free.ordered())
      if (!table_[id].is_split()) release(id);
  }
}

/// `id`: a free block that is a whole segment.
void Gmlake::release(BlockId id) {
  for (const Stitches::Id stitched : std::vector(stitches_.over(id))) {
    if (stitches_[stitched].taken > 0_B)
      stitches_[stitched].doomed = true;
    else
      unmap(stitched);
  }
  take_out(id);
  stitches_.will_remove(id);
  const Block block = table_[id];
  table_.remove(id);
  use_.reserved -= block.size;
  device_.shrink(block.size);
  if (arenas_[block.arena].small) {
    ++calls_.free;
    ++calls_.sync;  // cudaFree waits for the device
  } else {
    calls_.unmap += block.size / page;
  }
}

void Gmlake::unmap_unused_stitches() {
  for (const Stitches::Id id : stitches_.all())
    if (stitches_[id].taken == 0_B) unmap(id);
}

void Gmlake::unmap(Stitches::Id id) {
  const Stitches::Stitched& stitched = stitches_[id];
  if (stitched.is_available()) arenas_[stitched.arena].stitched.erase({stitched.size, stitched.address});
  calls_.unmap += stitched.size / page;
  stitched_bytes_ -= stitched.size;
  stitches_.remove(id);
}

BlockId Gmlake::split(BlockId id, Bytes size) {
  const BlockId front = table_.split_front(id, size);
  stitches_.was_split(front, id);
  return front;
}

/// `id` must not be in any index.
void Gmlake::mark_used(BlockId id) {
  table_[id].state = BlockState::allocated;
  for (const Stitches::Id over : stitches_.over(id)) {
    Stitches::Stitched& stitched = stitches_[over];
    if (stitched.is_available()) arenas_[stitched.arena].stitched.erase({stitched.size, stitched.address});
    stitched.used += stitches_.common(over, id);
  }
}

void Gmlake::make_free(BlockId id) {
  for (const Stitches::Id over : stitches_.over(id)) {
    Stitches::Stitched& stitched = stitches_[over];
    stitched.used -= stitches_.common(over, id);
    if (stitched.is_available())
      arenas_[stitched.arena].stitched.emplace(std::pair(stitched.size, stitched.address), over);
  }
  const auto is_free = [&](BlockId near) { return near != BlockId::none && table_[near].state == BlockState::free; };
  if (const BlockId previous = table_[id].previous; is_free(previous)) {
    take_out(previous);
    stitches_.will_merge(id, previous);
    table_.absorb_previous(id);
    stitches_.was_merged(id);
  }
  if (const BlockId next = table_[id].next; is_free(next)) {
    take_out(next);
    stitches_.will_merge(id, next);
    table_.absorb_next(id);
    stitches_.was_merged(id);
  }
  put_free(id);
}

void Gmlake::put_free(BlockId id) {
  Block& block = table_[id];
  block.state = BlockState::free;
  arenas_[block.arena].free.insert(id);
  largest_.set(block.arena, arenas_[block.arena].free.largest());
  use_.free += block.size;
}

void Gmlake::take_out(BlockId id) {
  const Block& block = table_[id];
  arenas_[block.arena].free.erase(id);
  largest_.set(block.arena, arenas_[block.arena].free.largest());
  use_.free -= block.size;
}

PolicyEntry gmlake_entry() {
  return {
      .info = {.name = "gmlake",
               .description = "PyTorch's allocator with GMLake's stitching of free blocks",
               .parameters =
                   {{"fragLimit", "512MiB", AllowedValues::size("512MiB"), "requests from this size on are stitched"},
                    {"reuseLimit", "10", AllowedValues::checked("a number from 1"),
                     "a free block up to this many times as large as the request is taken whole"},
                    {"level", "0", AllowedValues::one_of({"0", "1", "2"}),
                     "when blocks are stitched: before a segment is taken, after the driver refused one, or after "
                     "unused segments were released, too"}}},
      .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
        const auto reuse_limit = parse_fraction(spec.parameters.at("reuseLimit"));
        if (!reuse_limit || *reuse_limit < 1) return bad_parameter(spec, "reuseLimit", "a number from 1");
        const GmlakeSettings settings{.frag_limit = size_of(spec, "fragLimit"),
                                      .reuse_limit = *reuse_limit,
                                      .level = static_cast<unsigned>(number_of(spec, "level"))};
        return BoundPolicy{
            .spec = spec, .unit = Gmlake::page, .run = [settings](const Prepared& heap, const RunOptions& options) {
              return run_policy<Gmlake>(heap, settings, options);
            }};
      }};
}

}  // namespace memreel
