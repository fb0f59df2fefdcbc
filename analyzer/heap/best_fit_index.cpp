#include "analyzer/heap/best_fit_index.h"

namespace memreel {

void BestFitIndex::Bin::insert_in_chunks(const Entry& entry) {
  if (!long_) {
    long_ = std::make_unique<SortedChunks<Entry, LastEntry>>();
    for (const Entry& e : short_) long_->insert(e);
    short_.clear();
  }
  long_->insert(entry);
}

// Takes its entry by value: it lies in the chunk that changes.
void BestFitIndex::Bin::erase_from_chunks(Entry entry) {
  long_->erase(entry);
  // Well below where chunks begin, so that a bin near the limit does not change its form at every event.
  if (long_->size() > longest_array / 4) return;
  for (std::size_t i = 0; i < long_->directory().size(); ++i) {
    const auto chunk = long_->chunk(i);
    short_.insert(short_.end(), chunk.begin(), chunk.end());
  }
  long_.reset();
}

void BestFitIndex::Bin::append_to(std::vector<BlockId>& blocks) const {
  for (const Entry& entry : short_) blocks.push_back(entry.block);
  if (!long_) return;
  for (std::size_t i = 0; i < long_->directory().size(); ++i)
    for (const Entry& entry : long_->chunk(i)) blocks.push_back(entry.block);
}

std::vector<BlockId> BestFitIndex::ordered() const {
  std::vector<BlockId> blocks;
  for (const auto& row : rows_) {
    if (!row) continue;
    for (const Bin& bin : row->bins) bin.append_to(blocks);
  }
  return blocks;
}

}  // namespace memreel
