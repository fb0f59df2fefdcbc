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

template <class Tie>
void FitIndex<Tie>::insert_in_many(Bin& bin, const Entry& entry) {
  if (!bin.many) {
    bin.many = std::make_unique<Many>();
    for (const Entry& e : bin.few) bin.many->insert(e);
  }
  bin.many->insert(entry);
  ++bin.count;
}

template <class Tie>
void FitIndex<Tie>::erase_from_many(Bin& bin, std::uint32_t offset, BlockId id) {
  const Entry front = bin.many->chunk(0).front();  // what a search finds: its tie need not be looked up
  bin.many->erase(front.block == id ? front : Entry{tie_(*table_, id), offset, id});
  --bin.count;
  // Below the number at which bins are sorted, so that one near the limit does not change its form at every event.
  if (bin.count > most_few / 2) return;
  std::uint8_t place = 0;
  for (std::size_t i = 0; i < bin.many->directory().size(); ++i)
    for (const Entry& entry : bin.many->chunk(i)) {
      (*table_)[entry.block].place = place;
      bin.few[place++] = entry;
    }
  bin.many.reset();
}

template <class Tie>
BlockId FitIndex<Tie>::after(BlockId id) const {
  const Slot slot = slot_of((*table_)[id].size);
  const Entry before{tie_(*table_, id), slot.offset, id};
  const Row& row = *rows_[slot.row];
  const Bin& bin = row.bins[slot.column];
  if (bin.many) {
    const Entry* next = bin.many->lower_bound({before.tie + 1, before.offset, BlockId::none});
    if (next) return next->block;
  } else {
    const Entry* next = &beyond_all;
    for (std::uint32_t i = 0; i < bin.count; ++i)
      if (before < bin.few[i] && bin.few[i] < *next) next = &bin.few[i];
    if (next->block != BlockId::none) return next->block;
  }
  const std::uint64_t bins = (row.occupied >> slot.column) & ~std::uint64_t{1};
  if (bins != 0) return first_in(row.bins[slot.column + lowest_bit(bins)], 0);
  const std::uint64_t rows = (occupied_rows_ >> slot.row) & ~std::uint64_t{1};
  if (rows == 0) return BlockId::none;
  const Row& larger = *rows_[slot.row + lowest_bit(rows)];
  return first_in(larger.bins[lowest_bit(larger.occupied)], 0);
}

template <class Tie>
Bytes FitIndex<Tie>::find_largest() const {
  if (empty()) return {};
  Slot slot{.row = highest_bit(occupied_rows_)};
  const Row& row = *rows_[slot.row];
  slot.column = highest_bit(row.occupied);
  const Bin& bin = row.bins[slot.column];
  slot.offset = bin.many ? bin.many->directory().back().last.offset
                         : std::max_element(bin.few.begin(), bin.few.begin() + bin.count)->offset;
  return size_of(slot);
}

template <class Tie>
std::vector<BlockId> FitIndex<Tie>::ordered() const {
  std::vector<BlockId> blocks;
  for_each_bin({}, [&](const Bin& bin) {
    if (bin.many) {
      for (std::size_t i = 0; i < bin.many->directory().size(); ++i)
        for (const Entry& entry : bin.many->chunk(i)) blocks.push_back(entry.block);
    } else {
      std::array<Entry, most_few> few = bin.few;
      std::sort(few.begin(), few.begin() + bin.count);
      for (std::uint32_t i = 0; i < bin.count; ++i) blocks.push_back(few[i].block);
    }
  });
  return blocks;
}

template class FitIndex<LowestFirst>;
template class FitIndex<OldestFirst>;

}  // namespace memreel
