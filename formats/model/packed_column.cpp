// SPDX-License-Identifier: Apache-2.0
#include "formats/model/packed_column.h"

#include <bit>

namespace memreel {
namespace {

constexpr std::size_t smallest_room = 64;  // rows
constexpr std::uint64_t all_bits = ~std::uint64_t{0};
constexpr std::uint64_t plain_width = sizeof(std::uint64_t);

/// A row is read as 8 bytes, whatever its width.
constexpr std::size_t padding = sizeof(std::uint64_t);

}  // namespace

PackedColumn::PackedColumn(const PackedColumn& other)
    : chunks_(other.chunks_), storage_(other.storage_), size_(other.size_), growing_(other.growing_) {
  if (other.room_ == 0) return;
  const std::size_t last = chunks_.size() - 1;  // it grows, and is not shared
  replace(last, other.packed(last, other.bounds_of(last)));
}

PackedColumn::Bounds PackedColumn::bounds_of(std::size_t chunk) const {
  if (room_ != 0 && chunk + 1 == chunks_.size()) return growing_;
  Bounds bounds;
  for_each_row(chunk, [&](std::uint64_t value) { bounds.include(value); });
  return bounds;
}

PackedColumn::Held PackedColumn::packed(std::size_t chunk, Bounds bounds) const {
  const std::uint64_t width = (static_cast<std::uint64_t>(std::bit_width(bounds.most - bounds.least)) + 7) / 8;
  Storage storage(new std::byte[rows_in(chunk) * width + padding]);
  for_each_row(chunk, [&, to = storage.get()](std::uint64_t value) mutable {
    const std::uint64_t distance = value - bounds.least;
    std::memcpy(to, &distance, sizeof distance);  // also over the next rows, which follow
    to += width;
  });
  return {.chunk = {.bytes = storage.get(),
                    .base = bounds.least,
                    .mask = width == 0 ? 0 : all_bits >> (64 - 8 * width),
                    .width = width},
          .storage = std::move(storage)};
}

PackedColumn::Held PackedColumn::plain(std::size_t chunk, std::size_t room) const {
  Storage storage(new std::byte[room * plain_width]);
  for_each_row(chunk, [to = storage.get()](std::uint64_t value) mutable {
    std::memcpy(to, &value, plain_width);
    to += plain_width;
  });
  return {.chunk = {.bytes = storage.get(), .mask = all_bits, .width = plain_width}, .storage = std::move(storage)};
}

void PackedColumn::replace(std::size_t chunk, Held by) {
  chunks_[chunk] = by.chunk;
  storage_[chunk] = std::move(by.storage);
}

void PackedColumn::make_room() {
  const std::size_t rows = size_ % chunk_rows;  // of the chunk that the next row goes to
  std::size_t room = size_ == 0 ? smallest_room : chunk_rows;
  if (rows == 0) {
    pack();
    chunks_.emplace_back();
    storage_.emplace_back();
  } else if (size_ < chunk_rows) {
    room = std::min(chunk_rows, std::max(smallest_room, 2 * rows));
  }
  if (rows == 0)
    growing_ = {};
  else if (chunks_.back().width != plain_width || chunks_.back().base != 0)
    growing_ = bounds_of(chunks_.size() - 1);
  replace(chunks_.size() - 1, plain(chunks_.size() - 1, room));
  next_ = chunks_.back().bytes + rows * plain_width;
  room_ = room - rows;
}

void PackedColumn::pack() {
  room_ = 0;
  if (size_ == 0 || chunks_.back().width != plain_width || chunks_.back().base != 0) return;
  replace(chunks_.size() - 1, packed(chunks_.size() - 1, growing_));
}

void PackedColumn::set(std::size_t i, std::uint64_t value) {
  const std::size_t at = i >> chunk_bits;
  if (value < chunks_[at].base || value - chunks_[at].base > chunks_[at].mask) {
    // Down to 0 at once: otherwise values that fall would each need another base.
    const Bounds now = bounds_of(at);
    replace(at, packed(at, {.least = value < now.least ? 0 : now.least, .most = std::max(now.most, value)}));
  } else if (storage_[at].use_count() > 1) {
    replace(at, packed(at, {.least = chunks_[at].base, .most = chunks_[at].base + chunks_[at].mask}));
  }
  if (at + 1 == chunks_.size()) growing_.include(value);
  const Chunk& chunk = chunks_[at];
  const std::uint64_t distance = value - chunk.base;
  std::memcpy(chunk.bytes + (i & (chunk_rows - 1)) * chunk.width, &distance, chunk.width);
}

PackedColumn::Bounds PackedColumn::bounds() const {
  if (size_ == 0) return {.least = 0, .most = 0};
  Bounds all;
  for (std::size_t at = 0; at < chunks_.size(); ++at) {
    const Chunk& chunk = chunks_[at];
    const bool looks = chunk.width == plain_width || chunk.base > all_bits - chunk.mask;
    const Bounds bounds = looks ? bounds_of(at) : Bounds{.least = chunk.base, .most = chunk.base + chunk.mask};
    all.include(bounds.least);
    all.include(bounds.most);
  }
  return all;
}

Bytes PackedColumn::memory() const {
  std::uint64_t bytes = room_ * plain_width;
  for (std::size_t at = 0; at < chunks_.size(); ++at)
    bytes += sizeof(Chunk) + sizeof(Storage) + padding + rows_in(at) * chunks_[at].width;
  return {bytes};
}

bool operator==(const PackedColumn& a, const PackedColumn& b) {
  if (a.size_ != b.size_) return false;
  for (std::size_t i = 0; i < a.size_; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace memreel
