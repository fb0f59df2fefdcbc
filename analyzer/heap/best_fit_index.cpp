#include "analyzer/heap/best_fit_index.h"

namespace memreel {

BlockId BestFitIndex::first_in_many(const Bin& bin, std::uint32_t offset) {
  const Entry& front = bin.many->chunk(0).front();
  if (front.offset >= offset) return front.block;
  const Entry* first = bin.many->lower_bound({Address{}, offset, BlockId::none});
  return first ? first->block : BlockId::none;
}

void BestFitIndex::insert_in_many(Bin& bin, const Entry& entry) {
  if (!bin.many) {
    bin.many = std::make_unique<Many>();
    for (const Entry& e : bin.few) bin.many->insert(e);
  }
  bin.many->insert(entry);
  ++bin.count;
}

void BestFitIndex::erase_from_many(Bin& bin, const Entry& entry) {
  bin.many->erase(entry);
  --bin.count;
  // Below the number at which bins are sorted, so that one near the limit does not change its form at every event.
  if (bin.count > most_few / 2) return;
  const auto rest = bin.many->chunk(0);
  for (std::uint32_t i = 0; i < bin.count; ++i) {
    bin.few[i] = rest[i];
    (*table_)[rest[i].block].place = static_cast<std::uint8_t>(i);
  }
  bin.many.reset();
}

BlockId BestFitIndex::after(BlockId id) const {
  const Slot slot = slot_of((*table_)[id].size);
  const Entry before{(*table_)[id].address, slot.offset, id};
  const Row& row = *rows_[slot.row];
  const Bin& bin = row.bins[slot.column];
  if (bin.many) {
    const Entry* next = bin.many->lower_bound({before.address + 1_B, before.offset, BlockId::none});
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

Bytes BestFitIndex::find_largest() const {
  if (empty()) return {};
  const Row& row = *rows_[static_cast<unsigned>(std::bit_width(occupied_rows_)) - 1];
  const Bin& bin = row.bins[static_cast<unsigned>(std::bit_width(row.occupied)) - 1];
  if (bin.many) return (*table_)[bin.many->directory().back().last.block].size;
  const auto largest = std::max_element(bin.few.begin(), bin.few.begin() + bin.count);
  return (*table_)[largest->block].size;
}

std::vector<BlockId> BestFitIndex::ordered() const {
  std::vector<BlockId> blocks;
  for (std::uint64_t rows = occupied_rows_; rows != 0; rows &= rows - 1) {
    const Row& row = *rows_[lowest_bit(rows)];
    for (std::uint64_t bins = row.occupied; bins != 0; bins &= bins - 1) {
      const Bin& bin = row.bins[lowest_bit(bins)];
      if (bin.many) {
        for (std::size_t i = 0; i < bin.many->directory().size(); ++i)
          for (const Entry& entry : bin.many->chunk(i)) blocks.push_back(entry.block);
      } else {
        const auto first = static_cast<std::ptrdiff_t>(blocks.size());
        for (std::uint32_t i = 0; i < bin.count; ++i) blocks.push_back(bin.few[i].block);
        std::sort(blocks.begin() + first, blocks.end(), [&](BlockId x, BlockId y) {
          const Block &a = (*table_)[x], &b = (*table_)[y];
          return a.size != b.size ? a.size < b.size : a.address < b.address;
        });
      }
    }
  }
  return blocks;
}

}  // namespace memreel
