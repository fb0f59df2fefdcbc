#include "analyzer/policies/stitches.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

}  // namespace memreel
