// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/slab.h"

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {
namespace {

constexpr unsigned largest_class_log2 = 45;  // no device has more

std::uint32_t class_count(const SlabSettings& settings) {
  const auto doublings = largest_class_log2 - static_cast<unsigned>(std::countr_zero(settings.min.count));
  return 1 + doublings * settings.classes_per_doubling;
}

/// The fewest pages that blocks of `size` fill except for at most an eighth.
Bytes slab_size_of(Bytes size, Bytes page) {
  Bytes slab = round_up(size, page);
  while (slab.count % size.count > slab.count / 8) slab += page;
  return slab;
}

}  // namespace

SlabPolicy::SlabPolicy(const Prepared& heap, const SlabSettings& settings, SimulatedDevice& device)
    : settings_(settings),
      device_(device),
      occupied_(class_count(settings) / 64 + 1),
      lists_(2 * class_count(settings)),
      block_of_(heap.slot_count + 1) {
  Bytes size = settings.min;
  for (std::uint32_t number = 0; number < class_count(settings); ++number) {
    const Bytes slab = slab_size_of(size, settings.page);
    classes_.push_back({.size = size, .slab_size = slab, .blocks = static_cast<std::uint32_t>(slab / size)});
    const Bytes doubling{std::bit_floor(size.count)};
    size += Bytes{doubling.count / settings.classes_per_doubling};
  }
}

std::uint32_t SlabPolicy::class_of(Bytes requested) const {
  if (requested <= settings_.min) return 0;
  // Sizes above `from`, a power of two, up to twice that.
  const auto from_log2 = static_cast<unsigned>(std::bit_width(requested.count - 1)) - 1;
  const auto step_log2 = from_log2 - static_cast<unsigned>(std::countr_zero(settings_.classes_per_doubling));
  const auto above = static_cast<std::uint32_t>((requested.count - 1 - (std::uint64_t{1} << from_log2)) >> step_log2);
  const auto doubling = from_log2 - static_cast<unsigned>(std::countr_zero(settings_.min.count));
  return 1 + doubling * settings_.classes_per_doubling + above;
}

void SlabPolicy::free_completed(std::uint32_t slot, Bytes /*requested*/) {
  const SlabBlock block_in = block_of_[slot];
  Slab& slab = slabs_[block_in.slab];
  const std::uint32_t word = block_in.block / 64;
  slab.bits[word] |= std::uint64_t{1} << block_in.block % 64;
  slab.words |= std::uint64_t{1} << word;
  add_free_blocks(slab.number, 1);
  use_.free += classes_[slab.number].size;
  const bool was_full = slab.free++ == 0;
  const bool is_empty = slab.free == classes_[slab.number].blocks;
  if (!was_full && is_empty) leave_list(block_in.slab);
  if (was_full || is_empty)
    lists_.push_front(is_empty ? empty_list(slab.number) : partial_list(slab.number), BlockId{block_in.slab});
}

Bytes SlabPolicy::largest_free() const {
  for (std::size_t i = occupied_.size(); i-- > 0;)
    if (occupied_[i] != 0) return classes_[64 * i + static_cast<std::size_t>(std::bit_width(occupied_[i])) - 1].size;
  return {};
}

void SlabPolicy::empty_cache() {
  for (std::uint32_t number = 0; number < classes_.size(); ++number) {
    SizeClass& size_class = classes_[number];
    while (!lists_.empty(empty_list(number))) {
      const std::uint32_t id = index(lists_.front(empty_list(number)));
      leave_list(id);
      Slab& slab = slabs_[id];
      device_.release(slab.address, size_class.slab_size);
      use_.reserved -= size_class.slab_size;
      use_.free -= size_class.size * slab.free;
      left_over_ -= size_class.slab_size - size_class.size * slab.free;
      size_class.free_blocks -= slab.free;
      slab.free = 0;
      vacant_.push_back(id);
      ++calls_.free;
      ++calls_.sync;  // cudaFree waits for the device
    }
    if (size_class.free_blocks == 0) occupied_[number / 64] &= ~(std::uint64_t{1} << number % 64);
  }
}

std::uint32_t SlabPolicy::open_slab(std::uint32_t number) {
  if (lists_.empty(empty_list(number)) && !reserve(number)) {
    empty_cache();
    if (!reserve(number)) return no_slab;
  }
  const BlockId id = lists_.front(empty_list(number));
  lists_.erase(id);
  lists_.push_front(partial_list(number), id);
  return index(id);
}

bool SlabPolicy::reserve(std::uint32_t number) {
  const SizeClass& size_class = classes_[number];
  const auto address = device_.reserve(size_class.slab_size);
  if (!address) return false;
  ++calls_.malloc;
  use_.reserved += size_class.slab_size;
  use_.free += size_class.size * size_class.blocks;
  left_over_ += size_class.slab_size - size_class.size * size_class.blocks;
  if (vacant_.empty()) {
    vacant_.push_back(static_cast<std::uint32_t>(slabs_.size()));
    slabs_.emplace_back();
  }
  const std::uint32_t id = vacant_.back();
  vacant_.pop_back();
  Slab& slab = slabs_[id];
  slab.address = *address;
  slab.number = number;
  slab.free = size_class.blocks;
  const std::uint32_t words = (size_class.blocks + 63) / 64;
  slab.bits.assign(words, ~std::uint64_t{0});
  if (size_class.blocks % 64 != 0) slab.bits.back() >>= 64 - size_class.blocks % 64;
  slab.words = ~std::uint64_t{0} >> (64 - words);
  add_free_blocks(number, size_class.blocks);
  lists_.push_front(empty_list(number), BlockId{id});
  return true;
}

void SlabPolicy::add_free_blocks(std::uint32_t number, std::uint32_t count) {
  classes_[number].free_blocks += count;
  occupied_[number / 64] |= std::uint64_t{1} << number % 64;
}

PolicyEntry slab_entry() {
  return {.info = {.name = "slab",
                   .description = "size classes, each with its own slabs",
                   .parameters = {{"classes_per_doubling", "4", AllowedValues::power_of_two_number(1, 16),
                                   "size classes in each doubling"},
                                  {"min", "512", AllowedValues::power_of_two(16_B, 1_GiB),
                                   "the smallest class; from a 4096th of `page` to `page`"},
                                  {"page", "2MiB", AllowedValues::power_of_two(64_KiB, 1_GiB), "the size of a slab"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const Bytes page = size_of(spec, "page");
            const auto min = size_within(spec, "min", std::max(Bytes{page.count / 4096}, 16_B), page);
            if (!min) return min.error();
            const SlabSettings settings{
                .classes_per_doubling = static_cast<std::uint32_t>(number_of(spec, "classes_per_doubling")),
                .min = *min,
                .page = page};
            return BoundPolicy{
                .spec = spec, .unit = page, .run = [settings](const Prepared& heap, const RunOptions& options) {
                  return run_policy<SlabPolicy>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
