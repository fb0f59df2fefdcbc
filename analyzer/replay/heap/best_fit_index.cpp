// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/best_fit_index.h"

#include <functional>
#include <utility>

namespace memreel {

template <class Tie>
auto FitIndex<Tie>::first_in_many(const Bin& bin, std::uint64_t offset) const -> Found {
  if (offset >= most_offset) return {};
  if (const Equals* equals = bin.many->equals.get()) {
    const unsigned place = equals->ties.least();
    return Found(equals->blocks[place], bin, place);
  }
  const Sorted& sorted = bin.many->sorted;
  const auto chunk = sorted.chunk(0);
  // The first blocks of many are found next, and if they are the oldest, they have not been accessed for long.
  table_->prefetch_block(chunk[std::min(blocks_ahead, chunk.size() - 1)].block);
  if (chunk.front().offset >= offset) return Found(chunk.front().block, bin, 0);
  const Entry* first = sorted.lower_bound({0, static_cast<std::uint32_t>(offset), BlockId::none});
  return first ? Found(first->block, bin, 0) : Found();
}

// Separate functions, tail-called by insert(), so that insert() need not save what they might change.

template <class Tie>
void FitIndex<Tie>::insert_in_new_row(BlockId id) {
  if (!has_bins_) {
    const Bytes size = (*table_)[id].size;
    if (first_.size() < most_first) {
      first_.push_back({.size = size, .tie = tie_(*table_, id), .block = id});
      largest_ = std::max(largest_, size);
      return;
    }
    has_bins_ = true;
    for (const First& first : std::exchange(first_, {})) insert(first.block);
    return insert(id);
  }
  const unsigned row = slot_of((*table_)[id].size).row;
  rows_[row] = std::make_unique<Row>(row);
  insert(id);
}

template <class Tie>
auto FitIndex<Tie>::search_first(Bytes size) const -> Found {
  const First* best = nullptr;
  for (const First& first : first_)
    if (first.size >= size && (best == nullptr || first < *best)) best = &first;
  return best == nullptr ? Found() : Found(best->block);
}

template <class Tie>
void FitIndex<Tie>::erase_first(BlockId id) {
  const auto found = std::ranges::find(first_, id, &First::block);
  *found = first_.back();
  first_.pop_back();
  if ((*table_)[id].size == largest_) largest_ = find_largest();
}

template <class Tie>
void FitIndex<Tie>::insert_in_many(BlockId id) {
  const Slot slot = slot_of((*table_)[id].size);
  Row& row = *rows_[slot.row];
  Bin& bin = row.bins[slot.column];
  if (!bin.many) {
    auto many = std::make_unique<Many>();
    if (has_one_size(bin)) many->equals = std::make_unique<Equals>();
    for_each_in(bin, [&](BlockId other) { add_to(*many, other); });
    bin.many = std::move(many);
    bin.used = all_few;
  }
  add_to(*bin.many, id);
  note(slot, row, (*table_)[id].size);
}

template <class Tie>
void FitIndex<Tie>::add_to(Many& many, BlockId id) {
  const Entry entry = entry_of(id);
  if (many.equals && (many.equals->ties.full() || !has_key(0, entry.tie))) {
    many.equals->ties.for_each([&](unsigned place, std::uint64_t tie) {
      many.sorted.insert({tie, 0, many.equals->blocks[place]});
    });
    many.equals.reset();
  }
  if (!many.equals) return many.sorted.insert(entry);
  const unsigned place = many.equals->ties.add(entry.tie);
  many.equals->blocks[place] = id;
  (*table_)[id].place = static_cast<std::uint16_t>(place);
}

template <class Tie>
void FitIndex<Tie>::erase_from_many(Bin& bin, BlockId id) {
  Many& many = *bin.many;
  if (many.equals) {
    many.equals->ties.remove((*table_)[id].place);
  } else {
    const Entry front = many.sorted.chunk(0).front();  // what a search finds: its tie need not be looked up
    many.sorted.erase(front.block == id ? front : entry_of(id));
  }
  // Below the number at which bins become sorted, so that one near the limit does not change its form at every event.
  if (many.size() <= most_few / 2) make_few(bin);
}

template <class Tie>
void FitIndex<Tie>::make_few(Bin& bin) {
  std::array<KeyedBlock, most_few> few;
  unsigned count = 0;
  bool fit = true;
  for_each_in(bin, [&](BlockId id) {
    const Entry entry = entry_of(id);
    fit = fit && has_key(entry.offset, entry.tie);
    few[count++] = {key_of(entry.offset, entry.tie), id};
  });
  if (!fit) return;
  for (unsigned place = 0; place < count; ++place)
    (*table_)[few[place].block].place = static_cast<std::uint16_t>(place);
  bin.few = few;
  bin.used = (1U << count) - 1;
  bin.many.reset();
}

template <class Tie>
BlockId FitIndex<Tie>::after(BlockId id) const {
  if (!has_bins_) {
    const First self{.size = (*table_)[id].size, .tie = tie_(*table_, id), .block = id};
    const First* next = nullptr;
    for (const First& first : first_)
      if (self < first && (next == nullptr || first < *next)) next = &first;
    return next == nullptr ? BlockId::none : next->block;
  }
  const Slot slot = slot_of((*table_)[id].size);
  const Entry before = entry_of(id);
  const Row& row = *rows_[slot.row];
  const Bin& bin = row.bins[slot.column];
  if (bin.many && bin.many->equals) {
    const BlockId next = after_in(*bin.many->equals, before.tie);
    if (next != BlockId::none) return next;
  } else if (bin.many) {
    const Entry* next = bin.many->sorted.lower_bound({before.tie + 1, before.offset, BlockId::none});
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
BlockId FitIndex<Tie>::after_in(const Equals& equals, std::uint64_t tie) {
  std::uint64_t least = no_key;
  BlockId next = BlockId::none;
  equals.ties.for_each([&](unsigned place, std::uint64_t other) {
    if (other <= tie || other >= least) return;
    least = other;
    next = equals.blocks[place];
  });
  return next;
}

template <class Tie>
Bytes FitIndex<Tie>::find_largest() const {
  Bytes largest;
  for (const First& first : first_) largest = std::max(largest, first.size);
  if (occupied_rows_ == 0) return largest;
  const Row& row = *rows_[highest_bit(occupied_rows_)];
  const Bin& bin = row.bins[highest_bit(row.occupied)];
  if (bin.many && !bin.many->equals) return (*table_)[bin.many->sorted.directory().back().last.block].size;
  for_each_in(bin, [&](BlockId id) { largest = std::max(largest, (*table_)[id].size); });
  return largest;
}

template <class Tie>
std::vector<BlockId> FitIndex<Tie>::ordered(Bytes size) const {
  std::vector<BlockId> blocks;
  std::vector<First> sorted = first_;
  std::ranges::sort(sorted, std::less{});
  for (const First& first : sorted) blocks.push_back(first.block);
  for_each_bin(size, [&](const Bin& bin) {
    const std::size_t first = blocks.size();
    for_each_in(bin, [&](BlockId id) { blocks.push_back(id); });
    if (bin.many && !bin.many->equals) return;  // they are sorted
    std::sort(blocks.begin() + static_cast<std::ptrdiff_t>(first), blocks.end(),
              [&](BlockId a, BlockId b) { return entry_of(a) < entry_of(b); });
  });
  return blocks;
}

template class FitIndex<LowestFirst>;
template class FitIndex<OldestFirst>;

}  // namespace memreel
