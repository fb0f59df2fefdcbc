// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/torch_host.h"

#include <algorithm>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/policies/torch_spec.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

/// Removes the keys of pinned memory that only affect timing.
Result<PolicySpec> without_neutral_host_keys(const PolicySpec& spec) {
  PolicySpec rest = spec;
  const auto known = TorchHostSettings{}.parameters();
  std::erase_if(rest.parameters, [&](const auto& parameter) {
    return parameter.first.starts_with("pinned_") && conf_key(parameter.first) != nullptr &&
           !known.contains(parameter.first);
  });
  return rest;
}

}  // namespace

TorchHost::TorchHost(const Prepared& heap, const TorchHostSettings& settings, Device& device)
    : settings_(settings), device_(device), block_of_(heap.slot_count + 1) {
  for (const PoolStream& pool_stream : heap.pool_streams) pools_.push_back(pool_stream.pool);
}

bool TorchHost::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  Block& block = block_of_[slot];
  block = {.pool = pools_[pool_stream]};
  if (requested == 0_B) return true;
  const Bytes size = settings_.round(requested);
  std::vector<Block>& blocks = free_[{block.pool, bucket_of(size)}];
  const auto found = std::find_if(blocks.rbegin(), blocks.rend(), [&](const Block& b) { return b.size >= size; });
  if (found != blocks.rend()) {
    block = *found;
    count_taken(block.size);
    blocks.erase(std::next(found).base());
  } else if (!get(size, block)) {
    return false;
  }
  use_.allocated += block.size;
  return true;
}

void TorchHost::free_completed(std::uint32_t slot, Bytes /*requested*/) {
  const Block& block = block_of_[slot];
  if (block.size == 0_B) return;
  if (block.size > settings_.cached) return release(block);
  free_[{block.pool, bucket_of(block.size)}].push_back(block);
  count_free(block.size);
}

void TorchHost::empty_cache() {
  release_pool(PoolId::default_pool);
  for (const PoolId pool : ended_) release_pool(pool);
}

bool TorchHost::get(Bytes size, Block& block) {
  if (settings_.reserve > 0_B && reserve_ == 0_B && !take_reserve()) return false;
  const Bytes aligned = round_up(size, TorchHostSettings::reserve_alignment);
  if (aligned <= reserve_left()) {
    count_taken(reserve_left());
    block.address = reserve_begin_ + reserve_used_;
    reserve_used_ += aligned;
    if (reserve_left() > 0_B) count_free(reserve_left());
    block.size = size;
    return true;
  }
  const auto address = device_.reserve(size);
  if (!address) return false;
  ++calls_.malloc;
  use_.reserved += size;
  block.address = *address;
  block.size = size;
  return true;
}

bool TorchHost::take_reserve() {
  const auto address = device_.reserve(settings_.reserve);
  if (!address) return false;
  ++calls_.malloc;
  use_.reserved += settings_.reserve;
  reserve_begin_ = *address;
  reserve_ = settings_.reserve;
  count_free(reserve_);
  return true;
}

void TorchHost::release(const Block& block) {
  if (in_reserve(block.address)) return;
  device_.release(block.address, block.size);
  ++calls_.free;
  ++calls_.sync;  // cudaFreeHost waits for the device
  use_.reserved -= block.size;
}

void TorchHost::release_pool(PoolId pool) {
  const auto first = free_.lower_bound({pool, 0});
  auto place = first;
  for (; place != free_.end() && place->first.first == pool; ++place)
    for (const Block& block : place->second) {
      count_taken(block.size);
      release(block);
    }
  free_.erase(first, place);
}

void TorchHost::count_free(Bytes size) {
  use_.free += size;
  ++free_sizes_[size];
}

void TorchHost::count_taken(Bytes size) {
  use_.free -= size;
  if (const auto found = free_sizes_.find(size); --found->second == 0) free_sizes_.erase(found);
}

PolicyEntry torch_host_entry() {
  return {.info = {.name = TorchHostSettings::policy,
                   .description = "PyTorch's allocator of pinned host memory",
                   .parameters = parameters_of(TorchHostSettings{}),
                   .host_memory = true},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = TorchHostSettings::parse(spec.parameters, spec.name);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = spec_of(*settings),
                               .unit = 1_B,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<TorchHost>(heap, settings, options);
                               }};
          },
          .normalize = without_neutral_host_keys};
}

}  // namespace memreel
