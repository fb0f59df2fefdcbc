// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/bfc.h"

#include <array>
#include <charconv>

#include "analyzer/replay/engine/engine.h"

namespace memreel {
namespace {

/// JAX limits its allocator to whole pages.
constexpr Bytes limit_unit = 2_MiB;

std::string text_of(bool value) { return value ? "true" : "false"; }

std::string text_of(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed);
  return {text.begin(), result.ptr};
}

AllowedValues sizes() { return AllowedValues::size_between(1_B, BfcSettings::unlimited); }
AllowedValues sizes_or_none() { return AllowedValues::size_between(1_B, BfcSettings::unlimited, {"none"}); }

}  // namespace

Bytes BfcSettings::limit_on(std::optional<Bytes> capacity) const {
  if (limit) return *limit;
  if (!capacity && growth != Growth::none) return unlimited;
  const Bytes total = std::min(capacity.value_or(memory), unlimited);
  const Bytes share{static_cast<std::uint64_t>(fraction * static_cast<double>(total.count))};
  return std::min(round_up(share, limit_unit), total);
}

Bytes BfcSettings::split_limit(Bytes of_all) const {
  if (fragmentation_fraction <= 0) return largest_rest;
  const Bytes share{static_cast<std::uint64_t>(fragmentation_fraction * static_cast<double>(of_all.count))};
  return std::max(share, 1_B);  // the remainder must not be empty
}

std::vector<Parameter> BfcSettings::parameters() const {
  return {
      {"allow_growth", text_of(growth != Growth::none), AllowedValues::flag(),
       "takes regions of doubling size as it needs them; false: all that it may have, at once"},
      {"coalesce_regions", text_of(coalesce_regions), AllowedValues::flag(), "joins regions whose addresses adjoin"},
      {"fraction", text_of(fraction), AllowedValues::share(), "share of the device's memory that it may have; above 0"},
      {"fragmentation_fraction", text_of(fragmentation_fraction), AllowedValues::share(),
       "a chunk is split if more than this share of the limit would be left over; 0: more than 128 MiB"},
      {"garbage_collection", text_of(garbage_collection), AllowedValues::flag(),
       "gives back free regions before a request fails"},
      {"limit", limit ? size_text(*limit) : "none", sizes_or_none(), "what it may have, whatever `fraction` says"},
      {"memory", size_text(memory), sizes(), "of the device, if neither `--capacity` nor the recording says"},
      {"page", size_text(page), AllowedValues::power_of_two(unit, 1_GiB), "regions are multiples of it"},
      {"spatial_partitioning", text_of(spatial_partitioning), AllowedValues::flag(),
       "the free chunk at the region's end is the last choice; needs allow_growth=false"}};
}

PolicySpec BfcSettings::spec(std::string name) const {
  return {.name = std::move(name), .parameters = defaults_of(parameters())};
}

Result<BfcSettings> BfcSettings::parse(const PolicySpec& spec) {
  const BfcSettings settings{.growth = is_true(spec, "allow_growth") ? Growth::doubling : Growth::none,
                             .limit = size_or_word(spec, "limit"),
                             .fraction = fraction_of(spec, "fraction"),
                             .page = size_of(spec, "page"),
                             .memory = size_of(spec, "memory"),
                             .fragmentation_fraction = fraction_of(spec, "fragmentation_fraction"),
                             .garbage_collection = is_true(spec, "garbage_collection"),
                             .coalesce_regions = is_true(spec, "coalesce_regions"),
                             .spatial_partitioning = is_true(spec, "spatial_partitioning")};
  if (settings.fraction <= 0) return bad_parameter(spec, "fraction", "above 0 and at most 1");
  if (settings.spatial_partitioning && settings.growth != Growth::none)
    return bad_parameter(spec, "spatial_partitioning", "possible with allow_growth=true: it needs one region");
  return settings;
}

BfcSettings tf_bfc_settings() { return {}; }
BfcSettings tf_growth_settings() { return {.garbage_collection = true}; }
BfcSettings jax_default_settings() {
  return {.growth = BfcSettings::Growth::none, .fraction = 0.75, .page = 2_MiB, .spatial_partitioning = true};
}
BfcSettings jax_growth_settings() { return {.fraction = 0.75, .page = 2_MiB}; }

namespace {

/// 0.9 times the refused size, computed as the allocator does.
Bytes backed_off(Bytes refused) {
  constexpr float factor = 0.9F;
  const Bytes less =
      round_up(Bytes{static_cast<std::uint64_t>(static_cast<float>(refused.count) * factor)}, BfcSettings::unit);
  return less < refused ? less : refused - BfcSettings::unit;
}

/// Doubles a region size, but never so far that doubling again could overflow.
Bytes doubled(Bytes size) { return std::min(size * 2, BfcSettings::unlimited * 2); }

template <BfcSettings (*defaults)()>
PolicyEntry entry(std::string_view name, std::string_view description) {
  return {.info = {.name = name, .description = description, .parameters = defaults().parameters()},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = BfcSettings::parse(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = settings->spec(spec.name),
                               .unit = 2_MiB,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Bfc>(heap, settings, options);
                               }};
          }};
}

}  // namespace

Bfc::Bfc(const Prepared& heap, const BfcSettings& settings, Device& device)
    : BlockPolicy(heap),
      settings_(settings),
      device_(device),
      limit_(settings.limit_on(device.capacity())),
      split_limit_(settings.split_limit(limit_)),
      next_region_(
          round_up(settings.growth == BfcSettings::Growth::none ? limit_ : std::min(limit_, settings.first_region),
                   BfcSettings::unit)) {}

std::vector<Block> Bfc::candidates() const {
  std::vector<Block> chunks;
  for (const BlockId id : free_.ordered()) chunks.push_back(table_[id]);
  if (gap_ != BlockId::none) chunks.push_back(table_[gap_]);
  return chunks;
}

BlockId Bfc::make_room(Bytes size) {
  const bool room = extend(size) || (settings_.garbage_collection && collect_garbage(size) && extend(size));
  return room ? find(size) : BlockId::none;
}

bool Bfc::extend(Bytes size) {
  const Bytes left = limit_ - std::min(limit_, use_.reserved);
  const Bytes available = left - Bytes{left.count % BfcSettings::unit.count};
  if (size > available) return false;
  Bytes wanted = size;
  bool doubled_for_it = false;
  if (settings_.growth != BfcSettings::Growth::requested) {
    for (; size > next_region_; doubled_for_it = true) next_region_ = doubled(next_region_);
    wanted = std::min(next_region_, available);
    if (!doubled_for_it && settings_.onnx_growth) grow_next_region();
  }
  std::optional<Address> address = device_.reserve(round_up(wanted, settings_.page));
  while (!address) {
    wanted = backed_off(wanted);
    if (wanted < size || wanted.count == 0 || (settings_.onnx_growth && wanted < 8_KiB)) return false;
    address = device_.reserve(round_up(wanted, settings_.page));
  }
  if (!doubled_for_it && !settings_.onnx_growth) grow_next_region();
  add_region(*address, round_up(wanted, settings_.page));
  return true;
}

/// After a request above `largest_region`, ONNX Runtime returns to that size.
void Bfc::grow_next_region() {
  const bool may_double = next_region_ < settings_.largest_region;
  if (may_double || settings_.onnx_growth)
    next_region_ = may_double ? std::min(doubled(next_region_), settings_.largest_region) : settings_.largest_region;
}

void Bfc::add_region(Address address, Bytes size) {
  ++calls_.malloc;
  use_.reserved += size;
  if (!first_region_) first_region_ = address;
  const BlockId before = settings_.coalesce_regions ? last_chunk_before(address) : BlockId::none;
  const BlockId chunk = table_.add(address, size, 0);
  if (before != BlockId::none) table_.link(before, chunk);
  table_.absorb_free_neighbours(chunk, [&](BlockId neighbour) { take_out(neighbour); });
  put_free(chunk);
}

/// The last chunk of the region that ends at `address`.
BlockId Bfc::last_chunk_before(Address address) const {
  for (std::uint32_t i = 0; i < table_.limit(); ++i) {
    const Block& block = table_[BlockId{i}];
    if (block.size.count > 0 && block.next == BlockId::none && block.address + block.size == address) return BlockId{i};
  }
  return BlockId::none;
}

bool Bfc::collect_garbage(Bytes size) {
  const std::vector<BlockId> regions = free_regions();
  Bytes total;
  for (const BlockId id : regions) total += table_[id].size;
  if (total.count == 0 || size > limit_ - std::min(limit_, use_.reserved) + total) return false;
  for (const BlockId id : regions) release(id);
  return true;
}

/// Every region that is entirely free, and thus one chunk, in address order.
std::vector<BlockId> Bfc::free_regions() const {
  std::vector<BlockId> regions;
  for (const BlockId id : free_.ordered())
    if (!table_[id].is_split()) regions.push_back(id);
  if (gap_ != BlockId::none && !table_[gap_].is_split()) regions.push_back(gap_);
  std::sort(regions.begin(), regions.end(),
            [&](BlockId a, BlockId b) { return table_[a].address < table_[b].address; });
  return regions;
}

void Bfc::release(BlockId region) {
  const Block block = table_[region];
  take_out(region);
  table_.remove(region);
  use_.reserved -= block.size;
  ++calls_.free;
  ++calls_.sync;  // cudaFree waits for the device
  device_.release(block.address, block.size);
}

void Bfc::empty_cache() {
  if (!settings_.shrinks) return;
  const bool keeps_first = settings_.growth == BfcSettings::Growth::doubling;
  for (const BlockId id : free_regions())
    if (!keeps_first || table_[id].address != first_region_) release(id);
  next_region_ = settings_.region_after_shrink;
}

PolicyEntry tf_bfc_entry() {
  return entry<tf_bfc_settings>("tf.bfc", "best fit with coalescing, of TensorFlow, XLA and JAX");
}
PolicyEntry tf_growth_entry() {
  return entry<tf_growth_settings>("tf.growth", "tf.bfc as TensorFlow makes it with allow_growth");
}
PolicyEntry jax_default_entry() {
  return entry<jax_default_settings>("jax.default",
                                     "tf.bfc as JAX makes it: 75 % of the device's memory from the start");
}
PolicyEntry jax_growth_entry() {
  return entry<jax_growth_settings>("jax.growth", "tf.bfc as JAX makes it with XLA_PYTHON_CLIENT_PREALLOCATE=false");
}

namespace {

BfcSettings arena_settings(const PolicySpec& spec) {
  const bool doubles = spec.parameters.at("extend") == "power_of_two";
  return {.growth = doubles ? BfcSettings::Growth::doubling : BfcSettings::Growth::requested,
          .first_region = size_of(spec, "first"),
          .largest_region = size_or_word(spec, "largest").value_or(BfcSettings::unlimited),
          .onnx_growth = true,
          .region_after_shrink = size_of(spec, "regrowth"),
          .limit = size_or_word(spec, "max_mem").value_or(BfcSettings::unlimited),
          .largest_rest = size_of(spec, "largest_rest"),
          .shrinks = true};
}

}  // namespace

PolicyEntry ort_arena_entry() {
  return {
      .info = {.name = "ort.arena",
               .description = "the arena of ONNX Runtime",
               .parameters = {{"extend", "power_of_two", AllowedValues::one_of({"power_of_two", "same_as_requested"}),
                               "how large the next region is: arena_extend_strategy"},
                              {"first", "1MiB", sizes(), "the first region: initial_chunk_size_bytes"},
                              {"largest", "1GiB", sizes_or_none(),
                               "the largest region that doubling leads to: max_power_of_two_extend_bytes"},
                              {"largest_rest", "128MiB", sizes(),
                               "a chunk is split if more would be left over: max_dead_bytes_per_chunk"},
                              {"max_mem", "none", sizes_or_none(), "what it may have in all: gpu_mem_limit"},
                              {"regrowth", "2MiB", sizes(),
                               "the first region after a shrink: initial_growth_chunk_size_bytes"}}},
      .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
        const BfcSettings settings = arena_settings(spec);
        return BoundPolicy{.spec = spec,
                           .unit = settings.growth == BfcSettings::Growth::requested ? BfcSettings::unit : 1_MiB,
                           .run = [settings](const Prepared& heap, const RunOptions& options) {
                             return run_policy<Bfc>(heap, settings, options);
                           }};
      }};
}

}  // namespace memreel
