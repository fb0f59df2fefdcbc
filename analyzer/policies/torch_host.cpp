#include "analyzer/policies/torch_host.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "analyzer/engine/engine.h"
#include "analyzer/policies/parameters.h"
#include "formats/model/limits.h"

namespace memreel {
namespace {

constexpr std::string_view no_limit = "unlimited";

std::optional<Bytes> parse_host_mib(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > max_allocation / 1_MiB) return std::nullopt;
  return 1_MiB * *value;
}

std::string host_mib_text(Bytes size) {
  return size == TorchHostSettings::unlimited ? std::string(no_limit) : std::to_string(size / 1_MiB);
}

/// Removes the keys of pinned memory that only affect timing, and those of device memory.
Result<PolicySpec> without_neutral_host_keys(const PolicySpec& spec) {
  constexpr std::array neutral{"pinned_use_cuda_host_register", "pinned_use_hip_host_register",
                               "pinned_num_register_threads", "pinned_use_background_threads", "pinned_free_catch_all"};
  PolicySpec rest = spec;
  for (const char* key : neutral) rest.parameters.erase(key);
  return rest;
}

}  // namespace

Result<TorchHostSettings> TorchHostSettings::parse(const PolicySpec& spec) {
  TorchHostSettings settings;
  for (const auto& [key, value] : {std::pair{threshold_key, &TorchHostSettings::round_threshold},
                                   std::pair{cached_key, &TorchHostSettings::cached}}) {
    const std::string& text = spec.parameters.at(key);
    if (text == no_limit) continue;
    const auto size = parse_host_mib(text);
    if (!size) return bad_parameter(spec, key, "'unlimited' or a number of MiB");
    settings.*value = *size;
  }
  const auto reserve = parse_host_mib(spec.parameters.at(reserve_key));
  if (!reserve) return bad_parameter(spec, reserve_key, "a number of MiB, 0 for none");
  settings.reserve = *reserve;
  return settings;
}

PolicySpec TorchHostSettings::spec() const {
  return {.name = std::string(policy),
          .parameters = {{threshold_key, host_mib_text(round_threshold)},
                         {cached_key, host_mib_text(cached)},
                         {reserve_key, host_mib_text(reserve)}}};
}

std::string TorchHostSettings::conf() const {
  const auto defaults = TorchHostSettings{}.spec().parameters;
  std::string conf;
  for (const auto& [key, value] : spec().parameters)
    if (value != defaults.at(key)) conf += (conf.empty() ? "" : ",") + key + ":" + value;
  return conf;
}

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
                   .defaults = TorchHostSettings{}.spec().parameters,
                   .host_memory = true},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = TorchHostSettings::parse(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = settings->spec(),
                               .unit = 1_B,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<TorchHost>(heap, settings, options);
                               }};
          },
          .normalize = without_neutral_host_keys};
}

}  // namespace memreel
