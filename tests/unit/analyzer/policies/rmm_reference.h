// SPDX-License-Identifier: Apache-2.0
// RMM's pool and arena implemented as in RMM, with plain lists and sets searched from the beginning: slow, but short
// enough to compare with RMM's source by eye. The faster policies must give the same results.
#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/policies/rmm_arena.h"
#include "analyzer/replay/policies/rmm_pool.h"

namespace memreel::testing {

class ReferencePool {
 public:
  ReferencePool(const RmmPoolSettings& settings, DeviceModel model) : settings_(settings), device_(model, {}) {
    if (const Bytes initial = settings.initial_on(device_); initial > 0_B) {
      const auto piece = expand(initial, initial);
      usable_ = piece.has_value();
      if (usable_) insert(lists_[number(1)], *piece);
    }
  }

  std::optional<Address> allocate(Bytes size, std::uint64_t stream) {
    if (!usable_) return std::nullopt;
    size = round_up(size, 256_B);
    const std::uint32_t own = number(stream);
    if (const auto block = best(lists_[own], size)) return cut(*block, size, lists_[own]);
    for (auto& [other, list] : lists_)
      if (const auto block = other == own ? std::nullopt : best(list, size)) return cut(*block, size, list);
    for (auto& [other, list] : lists_) {
      if (other == own) continue;
      for (const Piece& piece : list) insert(lists_[own], piece);
      list.clear();
      if (const auto block = best(lists_[own], size)) return cut(*block, size, lists_[own]);
    }
    Bytes most = to_grow(size);
    if (most < size && settings_.reclaim) {
      reclaim(lists_[own], size);
      most = to_grow(size);
    }
    const auto piece = expand(most, size);
    if (!piece) return std::nullopt;
    return cut(*piece, size, lists_[own]);
  }

  void free(Address address, Bytes size, std::uint64_t stream) {
    insert(lists_[number(stream)], {address, round_up(size, 256_B), upstream_.contains(address)});
  }

  Bytes reserved() const { return reserved_; }

 private:
  struct Piece {
    Address address;
    Bytes size;
    bool is_head = false;
  };
  using List = std::list<Piece>;

  std::uint32_t number(std::uint64_t stream) {
    return numbers_.try_emplace(stream == 0 ? 1 : stream, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

  static bool touch(const Piece& a, const Piece& b) { return a.address + a.size == b.address && !b.is_head; }

  static void insert(List& list, Piece piece) {
    auto next = list.begin();
    while (next != list.end() && next->address < piece.address) ++next;
    if (next != list.end() && touch(piece, *next)) {
      piece.size += next->size;
      next = list.erase(next);
    }
    if (next != list.begin() && touch(*std::prev(next), piece))
      std::prev(next)->size += piece.size;
    else
      list.insert(next, piece);
  }

  static std::optional<Piece> best(List& list, Bytes size) {
    auto found = list.end();
    for (auto piece = list.begin(); piece != list.end(); ++piece)
      if (piece->size >= size && (found == list.end() || piece->size < found->size)) found = piece;
    if (found == list.end()) return std::nullopt;
    const Piece piece = *found;
    list.erase(found);
    return piece;
  }

  static Address cut(const Piece& piece, Bytes size, List& rest_to) {
    if (piece.size > size) insert(rest_to, {piece.address + size, piece.size - size, false});
    return piece.address;
  }

  Bytes to_grow(Bytes size) const {
    if (!settings_.maximum) return std::max(size, reserved_);
    const Bytes left = *settings_.maximum - reserved_;
    return size > left ? 0_B : std::max(size, Bytes{left.count / 2 / 256 * 256});
  }

  std::optional<Piece> expand(Bytes most, Bytes least) {
    while (most >= least) {
      if (const auto address = device_.reserve(most)) {
        reserved_ += most;
        upstream_[*address] = most;
        return Piece{*address, most, true};
      }
      if (most == least) return std::nullopt;
      most = std::max(least, Bytes{most.count / 2 / 256 * 256});
    }
    return std::nullopt;
  }

  void reclaim(List& list, Bytes size) {
    if (!settings_.maximum || size > *settings_.maximum) return;
    for (auto piece = list.begin(); piece != list.end();) {
      if (*settings_.maximum - reserved_ >= size) return;
      const auto upstream = upstream_.find(piece->address);
      if (upstream == upstream_.end() || upstream->second != piece->size) {
        ++piece;
        continue;
      }
      device_.release(piece->address, piece->size);
      reserved_ -= piece->size;
      upstream_.erase(upstream);
      piece = list.erase(piece);
    }
  }

  RmmPoolSettings settings_;
  SimulatedDevice device_;
  bool usable_ = true;
  Bytes reserved_;
  std::map<std::uint64_t, std::uint32_t> numbers_;
  std::map<std::uint32_t, List> lists_;
  std::map<Address, Bytes> upstream_;
};

class ReferenceArena {
 public:
  explicit ReferenceArena(Bytes size) { add(sets_[global], {.size = size, .free = {{Address{}, size}}}); }

  std::optional<Address> allocate(Bytes size, std::uint64_t stream) {
    size = round_up(size, 256_B);
    sets_.try_emplace(stream);
    if (const auto address = try_to(size, stream)) return address;
    for (auto& [owner, set] : sets_) {
      if (owner == global) continue;
      for (auto& [address, superblock] : set) release(superblock);
      set.clear();
    }
    return try_to(size, stream);
  }

  void free(Address address, Bytes size) {
    size = round_up(size, 256_B);
    for (auto& [owner, set] : sets_) {
      const auto found = std::ranges::find_if(
          set, [&](const auto& entry) { return entry.first <= address && address < entry.first + entry.second.size; });
      if (found == set.end()) continue;
      Superblock superblock = found->second;
      put(superblock, address, size);
      set.erase(found);
      if (owner == global && superblock.empty())
        release(superblock);
      else
        add(set, superblock);
      return;
    }
  }

 private:
  static constexpr std::uint64_t global = ~std::uint64_t{0};

  struct Superblock {
    Address address{};
    Bytes size;
    std::map<Address, Bytes> free;
    bool empty() const { return free.size() == 1 && free.begin()->second == size; }
  };
  using Set = std::map<Address, Superblock>;

  static void add(Set& set, const Superblock& superblock) { set[superblock.address] = superblock; }

  std::optional<Address> try_to(Bytes size, std::uint64_t stream) {
    if (size > 1_MiB) {
      auto superblock = from_global(size);
      if (!superblock) return std::nullopt;
      const auto address = first_fit(*superblock, size);
      add(sets_[global], *superblock);
      return address;
    }
    for (auto& [address, superblock] : sets_[stream])
      if (const auto found = first_fit(superblock, size)) return found;
    auto superblock = from_global(size);
    if (!superblock) return std::nullopt;
    const auto address = first_fit(*superblock, size);
    add(sets_[stream], *superblock);
    return address;
  }

  std::optional<Superblock> from_global(Bytes size) {
    Set& set = sets_[global];
    const auto found = std::ranges::find_if(set, [&](const auto& entry) {
      return std::ranges::any_of(entry.second.free, [&](const auto& block) { return block.second >= size; });
    });
    if (found == set.end()) return std::nullopt;
    Superblock superblock = found->second;
    set.erase(found);
    const Bytes head = std::max(1_MiB, size);
    if (!superblock.empty() || superblock.size < head + 1_MiB) return superblock;
    const Address cut = superblock.address + head;
    add(set, {.address = cut, .size = superblock.size - head, .free = {{cut, superblock.size - head}}});
    return Superblock{.address = superblock.address, .size = head, .free = {{superblock.address, head}}};
  }

  static std::optional<Address> first_fit(Superblock& superblock, Bytes size) {
    const auto found = std::ranges::find_if(superblock.free, [&](const auto& block) { return block.second >= size; });
    if (found == superblock.free.end()) return std::nullopt;
    const auto [address, free] = *found;
    superblock.free.erase(found);
    if (free > size) superblock.free[address + size] = free - size;
    return address;
  }

  static void put(Superblock& superblock, Address address, Bytes size) {
    auto& free = superblock.free;
    if (const auto next = free.find(address + size); next != free.end()) {
      size += next->second;
      free.erase(next);
    }
    for (auto& [before, length] : free) {
      if (before + length != address) continue;
      length += size;
      return;
    }
    free[address] = size;
  }

  void release(Superblock superblock) {
    Set& set = sets_[global];
    const auto join = [&](const Superblock& other) {
      superblock.address = std::min(superblock.address, other.address);
      superblock.size += other.size;
      superblock.free = {{superblock.address, superblock.size}};
      set.erase(other.address);
    };
    if (superblock.empty()) {
      const auto next = set.find(superblock.address + superblock.size);
      if (next != set.end() && next->second.empty()) join(Superblock(next->second));
      const auto after = set.lower_bound(superblock.address);
      if (after != set.begin()) {
        const Superblock& before = std::prev(after)->second;
        if (before.empty() && before.address + before.size == superblock.address) join(Superblock(before));
      }
    }
    add(set, superblock);
  }

  std::map<std::uint64_t, Set> sets_;
};

}  // namespace memreel::testing
