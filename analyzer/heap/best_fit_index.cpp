#include "analyzer/heap/best_fit_index.h"

namespace memreel {

template <class Tie>
BlockId FitIndex<Tie>::first_in_many(const Bin& bin, std::uint32_t offset) const {
  const auto chunk = bin.many->chunk(0);
  // The first blocks of many are the next to be found, and if they are the oldest nobody has looked at them for long.
  table_->prefetch_block(chunk[std::min(blocks_ahead, chunk.size() - 1)].block);
  if (chunk.front().offset >= offset) return chunk.front().block;
  const Entry* first = bin.many->lower_bound({0, offset, BlockId::none});
  return first ? first->block : BlockId::none;
}

// Apart from insert(), and its last step, so that insert() needs no place to keep what they might change.

template <class Tie>
void FitIndex<Tie>::insert_in_new_row(BlockId id) {
  const unsigned row = slot_of((*table_)[id].size).row;
  rows_[row] = std::make_unique<Row>(row);
  insert(id);
}

template <class Tie>
void FitIndex<Tie>::insert_in_many(BlockId id) {
  const Slot slot = slot_of((*table_)[id].size);
  Row& row = *rows_[slot.row];
  Bin& bin = row.bins[slot.column];
  if (!bin.many) {
    auto many = std::make_unique<Many>();
    for_each_in(bin, [&](BlockId other) { many->insert(entry_of(other)); });
    bin.many = std::move(many);
    bin.used = all_few;
  }
  bin.many->insert(entry_of(id));
  note(slot, row, (*table_)[id].size);
}

template <class Tie>
void FitIndex<Tie>::erase_from_many(Bin& bin, BlockId id) {
  const Entry front = bin.many->chunk(0).front();  // what a search finds: its tie need not be looked up
  bin.many->erase(front.block == id ? front : entry_of(id));
  // Below the number at which bins are sorted, so that one near the limit does not change its form at every event.
  if (bin.many->size() > most_few / 2) return;
  const auto entries = bin.many->empty() ? std::span<const Entry>() : bin.many->chunk(0);
  if (entries.size() < bin.many->size()) return;
  if (!std::ranges::all_of(entries, [](const Entry& e) { return has_key(e.offset, e.tie); })) return;
  bin.few = {};
  unsigned place = 0;
  for (const Entry& e : entries) {
    (*table_)[e.block].place = static_cast<std::uint8_t>(place);
    bin.few[place++] = {key_of(e.offset, e.tie), e.block};
  }
  bin.used = (1U << place) - 1;
  bin.many.reset();
}

template <class Tie>
BlockId FitIndex<Tie>::after(BlockId id) const {
  const Slot slot = slot_of((*table_)[id].size);
  const Entry before = entry_of(id);
  const Row& row = *rows_[slot.row];
  const Bin& bin = row.bins[slot.column];
  if (bin.many) {
    const Entry* next = bin.many->lower_bound({before.tie + 1, before.offset, BlockId::none});
    if (next) return next->block;
  } else if (const Found next = first_in_few(bin, key_of(before.offset, before.tie) + 1)) {
    return next.block;
  }
  const std::uint64_t bins = (row.occupied >> slot.column) & ~std::uint64_t{1};
  if (bins != 0) return first_in(row.bins[slot.column + lowest_bit(bins)], 0).block;
  const std::uint64_t rows = (occupied_rows_ >> slot.row) & ~std::uint64_t{1};
  if (rows == 0) return BlockId::none;
  const Row& larger = *rows_[slot.row + lowest_bit(rows)];
  return first_in(larger.bins[lowest_bit(larger.occupied)], 0).block;
}

template <class Tie>
Bytes FitIndex<Tie>::find_largest() const {
  if (empty()) return {};
  const Row& row = *rows_[highest_bit(occupied_rows_)];
  const Bin& bin = row.bins[highest_bit(row.occupied)];
  if (bin.many) return (*table_)[bin.many->directory().back().last.block].size;
  Bytes largest;
  for_each_in(bin, [&](BlockId id) { largest = std::max(largest, (*table_)[id].size); });
  return largest;
}

template <class Tie>
std::vector<BlockId> FitIndex<Tie>::ordered() const {
  std::vector<BlockId> blocks;
  for_each_bin({}, [&](const Bin& bin) {
    const std::size_t first = blocks.size();
    for_each_in(bin, [&](BlockId id) { blocks.push_back(id); });
    if (bin.many) return;  // they are sorted
    std::sort(blocks.begin() + static_cast<std::ptrdiff_t>(first), blocks.end(),
              [&](BlockId a, BlockId b) { return entry_of(a) < entry_of(b); });
  });
  return blocks;
}

template class FitIndex<LowestFirst>;
template class FitIndex<OldestFirst>;

}  // namespace memreel
