// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/recorded_heap.h"

namespace memreel::torch {

UnitId RecordedHeap::hold(const PreexistingSegment& segment, std::uint64_t stream, UnitId before) {
  const bool continues =
      segment.mapped && before != UnitId::none && at(before).expandable && at(before).begin == segment.range.value;
  const UnitId id = continues ? before : UnitId{static_cast<std::uint32_t>(units_.size())};
  if (!continues) {
    units_.push_back({.begin = segment.range.value,
                      .stream = stream,
                      .small = segment.small,
                      .expandable = segment.mapped,
                      .fresh = false});
    alive_.insert(id);
    if (segment.mapped) ranges_.insert(key_of(id));
  }
  at(id).held += segment.size;
  at(id).end = segment.address.value + segment.size.count;
  if (segment.mapped) mapped_.insert(segment.address.value);
  std::uint64_t address = segment.address.value;
  for (const InitialBlock& block : segment.blocks) {
    const bool older = block.use != InitialUse::free && !segment.small && !segment.mapped;
    const auto piece = pieces_.try_emplace(address, Piece{.size = block.size.count, .unit = id, .older = older}).first;
    if (block.use == InitialUse::free) put_free(piece);
    address += block.size.count;
  }
  return id;
}

UnitId RecordedHeap::acquire(const Entry& entry, std::uint64_t stream) {
  UnitId id = entry.action() == Action::segment_map ? range_of(entry, stream) : UnitId::none;
  if (id == UnitId::none) {
    id = UnitId{static_cast<std::uint32_t>(units_.size())};
    const auto latest = latest_.find(stream);
    units_.push_back({.begin = entry.address,
                      .end = entry.address,
                      .stream = stream,
                      .small = Bytes{entry.size} == TorchSettings::small_segment,
                      .expandable = entry.action() == Action::segment_map,
                      .before = latest == latest_.end() ? UnitId::none : latest->second});
    alive_.insert(id);
    if (at(id).expandable) ranges_.insert(key_of(id));
  }
  Unit& unit = at(id);
  unit.fresh = true;
  unit.held += Bytes{entry.size};
  unit.end = std::max(unit.end, entry.address + entry.size);
  if (unit.expandable) mapped_.insert(entry.address);
  const auto [piece, is_new] = pieces_.try_emplace(entry.address, Piece{.size = entry.size, .unit = id});
  if (is_new) set_free(piece);
  return id;
}

UnitId RecordedHeap::release(const Entry& entry) {
  const auto piece = piece_at(entry.address);
  if (piece == pieces_.end() || !piece->second.free) return UnitId::none;
  const UnitId id = piece->second.unit;
  const std::uint64_t begin = piece->first;
  const std::uint64_t end = begin + piece->second.size;
  const std::uint64_t gone = entry.address + entry.size;
  if (gone > end) return UnitId::none;
  mapped_.erase(mapped_.lower_bound(entry.address), mapped_.lower_bound(gone));
  take_out(piece);
  pieces_.erase(piece);
  for (const auto& [from, to] : {std::pair{begin, entry.address}, std::pair{gone, end}})
    if (from < to) put_free(pieces_.try_emplace(from, Piece{.size = to - from, .unit = id}).first);
  Unit& unit = at(id);
  unit.held -= Bytes{entry.size};
  if (unit.held.bytes() == 0_B) {
    alive_.erase(id);
    ranges_.erase(key_of(id));
  }
  return id;
}

std::optional<RecordedHeap::Placement> RecordedHeap::placement(const Entry& alloc) const {
  const auto piece = piece_at(alloc.address);
  if (piece == pieces_.end() || !piece->second.free) return std::nullopt;
  if (piece->first != alloc.address && !mapped_.contains(alloc.address)) return std::nullopt;
  return Placement{.block = {.size = piece->first + piece->second.size - alloc.address,
                             .address = alloc.address,
                             .unit = piece->second.unit},
                   .rounded = rules_.round({alloc.size})};
}

void RecordedHeap::take(const Placement& placement) {
  const UnitId id = placement.block.unit;
  auto piece = pieces_.find(placement.block.address);
  if (piece == pieces_.end()) {
    keep_whole(id);
    piece = pieces_.find(placement.block.address);
    if (piece == pieces_.end()) return;
  }
  take_out(piece);
  piece->second.free = piece->second.older = false;
  const Bytes size{piece->second.size};
  if (!at(id).no_split && size > placement.rounded && rules_.splits(size - placement.rounded, placement.rounded)) {
    piece->second.size = placement.rounded.count;
    const Bytes rest = size - placement.rounded;
    put_free(pieces_.try_emplace(piece->first + placement.rounded.count, Piece{.size = rest.count, .unit = id}).first);
  }
  Unit& unit = at(id);
  unit.fresh = false;
  latest_[unit.stream] = id;
}

UnitId RecordedHeap::complete(const Entry& entry) {
  const auto piece = pieces_.find(entry.address);
  if (piece == pieces_.end()) return UnitId::none;
  const UnitId id = piece->second.unit;
  if (!piece->second.free) set_free(piece);
  return id;
}

bool RecordedHeap::would_serve(std::uint64_t stream, Bytes rounded) const {
  const auto group = free_.find({stream, TorchSettings::is_small(rounded)});
  if (group == free_.end()) return false;
  auto found = group->second.lower_bound({.size = rounded.count});
  if (found == group->second.end()) return false;
  while (rules_.expandable && could_grow(*found)) {
    const auto next = std::next(found);
    if (next == group->second.end() || capacity(*next) >= capacity(*found)) break;
    found = next;
  }
  return rules_.may_serve({found->size}, rounded);
}

UnitId RecordedHeap::unit_at(std::uint64_t address) const {
  const auto piece = piece_at(address);
  return piece == pieces_.end() ? UnitId::none : piece->second.unit;
}

std::optional<FreeBlock> RecordedHeap::free_block_at(std::uint64_t address) const {
  const auto piece = piece_at(address);
  if (piece == pieces_.end() || !piece->second.free) return std::nullopt;
  return FreeBlock{.size = piece->second.size, .address = piece->first, .unit = piece->second.unit};
}

std::uint64_t RecordedHeap::unused_in(const Unit& unit, Pieces::const_iterator piece) const {
  if (!unit.expandable) return piece->second.size == unit.end - unit.begin ? 1 : 0;
  const std::uint64_t run = unit.small ? TorchSettings::small_segment.count : rules_.large_segment.count;
  const std::uint64_t first = (piece->first - unit.begin + run - 1) / run;
  const std::uint64_t last = (piece->first - unit.begin + piece->second.size) / run;
  return last - std::min(first, last);
}

void RecordedHeap::change_unused(UnitId id, std::uint64_t by) {
  Unit& unit = at(id);
  unit.unused += by;
  unused_[unit.stream] += by;
  if (by != 0 && unit.unused == by) with_unused_.insert(id);
  if (unit.unused == 0) with_unused_.erase(id);
}

UnitId RecordedHeap::range_of(const Entry& entry, std::uint64_t stream) const {
  const bool small = Bytes{entry.size} == TorchSettings::small_segment;
  // The older one if two meet there.
  UnitId found = UnitId::none;
  auto range = ranges_.upper_bound({stream, small, entry.address, UnitId::none});
  for (int seen = 0; seen < 2 && range != ranges_.begin(); ++seen) {
    const auto& [its_stream, its_small, begin, id] = *--range;
    if (its_stream != stream || its_small != small) break;
    if (entry.address <= (*this)[id].end) found = std::min(found, id);
  }
  return found;
}

RecordedHeap::Pieces::iterator RecordedHeap::piece_at(std::uint64_t address) {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return pieces_.end();
  const auto piece = std::prev(after);
  return piece->first + piece->second.size > address ? piece : pieces_.end();
}

RecordedHeap::Pieces::const_iterator RecordedHeap::piece_at(std::uint64_t address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return pieces_.end();
  const auto piece = std::prev(after);
  return piece->first + piece->second.size > address ? piece : pieces_.end();
}

bool RecordedHeap::could_grow(const FreeBlock& block) const {
  return (*this)[block.unit].expandable && !pieces_.contains(block.address + block.size);
}

std::uint64_t RecordedHeap::capacity(const FreeBlock& block) const {
  if (!could_grow(block)) return block.size;
  const auto next = pieces_.upper_bound(block.address);
  const bool ends = next == pieces_.end() || next->second.unit != block.unit;
  return ends ? std::numeric_limits<std::uint64_t>::max() : next->first - block.address;
}

std::uint64_t RecordedHeap::least_size(const FreeBlock& block) const {
  const auto piece = pieces_.find(block.address);
  if (piece == pieces_.begin() || piece == pieces_.end()) return block.size;
  const Piece& before = std::prev(piece)->second;
  if (before.unit != block.unit || before.free || !before.older) return block.size;
  return block.size - std::min(block.size, TorchSettings::max_small.count);
}

void RecordedHeap::put_free(Pieces::iterator piece) {
  const Unit& unit = at(piece->second.unit);
  piece->second.free = true;
  change_unused(piece->second.unit, unused_in(unit, piece));
  free_[{unit.stream, unit.small}].insert({piece->second.size, piece->first, piece->second.unit});
}

void RecordedHeap::take_out(Pieces::const_iterator piece) {
  const Unit& unit = at(piece->second.unit);
  change_unused(piece->second.unit, 0 - unused_in(unit, piece));
  free_[{unit.stream, unit.small}].erase({piece->second.size, piece->first, piece->second.unit});
}

void RecordedHeap::keep_whole(UnitId range) {
  Unit& unit = at(range);
  unit.no_split = true;
  for (auto used = pieces_.lower_bound(unit.begin); used != pieces_.end() && used->first < unit.end; ++used) {
    const auto rest = std::next(used);
    if (used->second.free || rest == pieces_.end() || !rest->second.free || rest->second.unit != range) continue;
    if (rest->first != used->first + used->second.size || mapped_.contains(rest->first)) continue;
    const std::uint64_t rest_end = rest->first + rest->second.size;
    const auto next = mapped_.lower_bound(rest->first);
    const std::uint64_t end = next == mapped_.end() ? rest_end : std::min(*next, rest_end);
    take_out(rest);
    pieces_.erase(rest);
    used->second.size = end - used->first;
    if (end < rest_end) put_free(pieces_.try_emplace(end, Piece{.size = rest_end - end, .unit = range}).first);
  }
}

void RecordedHeap::set_free(Pieces::iterator piece) {
  const auto merges = [&](Pieces::const_iterator first, Pieces::const_iterator second) {
    return first->second.unit == second->second.unit && first->first + first->second.size == second->first;
  };
  if (const auto next = std::next(piece); next != pieces_.end() && next->second.free && merges(piece, next)) {
    take_out(next);
    piece->second.size += next->second.size;
    pieces_.erase(next);
  }
  if (piece != pieces_.begin()) {
    if (const auto previous = std::prev(piece); previous->second.free && merges(previous, piece)) {
      take_out(previous);
      previous->second.size += piece->second.size;
      pieces_.erase(piece);
      piece = previous;
    }
  }
  put_free(piece);
}

}  // namespace memreel::torch
