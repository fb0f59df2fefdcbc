// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/bfc.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "analyzer/engine/engine.h"
#include "analyzer/policies/parameters.h"

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

/// Reads the parameters of a spec; keeps the first invalid one.
class Reader {
 public:
  explicit Reader(const PolicySpec& spec) : spec_(spec) {}

  bool boolean(const std::string& name) {
    const std::string& text = spec_.parameters.at(name);
    if (text != "true" && text != "false") refuse(name, "true or false");
    return text == "true";
  }
  double fraction(const std::string& name, bool zero_too) {
    const auto value = parse_fraction(spec_.parameters.at(name));
    if (value && *value <= 1 && (*value > 0 || (zero_too && *value == 0))) return *value;
    refuse(name, zero_too ? "from 0 to 1" : "above 0 and at most 1");
    return 1;
  }
  Bytes size(const std::string& name) {
    const auto value = parse_size(spec_.parameters.at(name));
    if (value && value->count > 0 && *value <= BfcSettings::unlimited) return *value;
    refuse(name, "a size such as 16GiB, at most 32TiB");
    return 1_B;
  }
  std::optional<Bytes> size_or_none(const std::string& name) {
    if (spec_.parameters.at(name) == "none") return std::nullopt;
    return size(name);
  }
  void refuse(const std::string& name, std::string_view expected) {
    if (!error_) error_ = bad_parameter(spec_, name, expected);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const PolicySpec& spec_;
  std::optional<Error> error_;
};

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

PolicySpec BfcSettings::spec(std::string name) const {
  return {.name = std::move(name),
          .parameters = {{"allow_growth", text_of(growth != Growth::none)},
                         {"coalesce_regions", text_of(coalesce_regions)},
                         {"fraction", text_of(fraction)},
                         {"fragmentation_fraction", text_of(fragmentation_fraction)},
                         {"garbage_collection", text_of(garbage_collection)},
                         {"limit", limit ? size_text(*limit) : "none"},
                         {"memory", size_text(memory)},
                         {"page", size_text(page)},
                         {"spatial_partitioning", text_of(spatial_partitioning)}}};
}

Result<BfcSettings> BfcSettings::parse(const PolicySpec& spec) {
  Reader reader(spec);
  BfcSettings settings{.growth = reader.boolean("allow_growth") ? Growth::doubling : Growth::none,
                       .limit = reader.size_or_none("limit"),
                       .fraction = reader.fraction("fraction", false),
                       .memory = reader.size("memory"),
                       .fragmentation_fraction = reader.fraction("fragmentation_fraction", true),
                       .garbage_collection = reader.boolean("garbage_collection"),
                       .coalesce_regions = reader.boolean("coalesce_regions"),
                       .spatial_partitioning = reader.boolean("spatial_partitioning")};
  const auto page = power_of_two_parameter(spec, "page", unit, 1_GiB);
  if (!page) return page.error();
  settings.page = *page;
  if (settings.spatial_partitioning && settings.growth != Growth::none)
    reader.refuse("spatial_partitioning", "possible with allow_growth=true: it needs one region");
  if (reader.error()) return *reader.error();
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
  return {.info = {.name = name, .description = description, .defaults = defaults().spec(std::string(name)).parameters},
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

/// Reads the sizes of a spec; keeps the first invalid one.
class Sizes {
 public:
  explicit Sizes(const PolicySpec& spec) : spec_(spec) {}

  Bytes operator()(const std::string& name) { return read(name, "a size such as 2MiB"); }
  Bytes or_none(const std::string& name) {
    if (spec_.parameters.at(name) == "none") return BfcSettings::unlimited;
    return read(name, "a size such as 2MiB, or none");
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  Bytes read(const std::string& name, std::string_view expected) {
    const auto size = parse_size(spec_.parameters.at(name));
    if (size && size->count > 0 && *size <= BfcSettings::unlimited) return *size;
    if (!error_) error_ = bad_parameter(spec_, name, expected);
    return 1_B;
  }

  const PolicySpec& spec_;
  std::optional<Error> error_;
};

Result<BfcSettings> settings_of(const PolicySpec& spec) {
  const std::string& extend = spec.parameters.at("extend");
  if (extend != "power_of_two" && extend != "same_as_requested")
    return bad_parameter(spec, "extend", "power_of_two or same_as_requested");
  Sizes sizes(spec);
  const BfcSettings settings{
      .growth = extend == "power_of_two" ? BfcSettings::Growth::doubling : BfcSettings::Growth::requested,
      .first_region = sizes("first"),
      .largest_region = sizes.or_none("largest"),
      .onnx_growth = true,
      .region_after_shrink = sizes("regrowth"),
      .limit = sizes.or_none("max_mem"),
      .largest_rest = sizes("largest_rest"),
      .shrinks = true};
  if (sizes.error()) return *sizes.error();
  return settings;
}

}  // namespace

PolicyEntry ort_arena_entry() {
  return {.info = {.name = "ort.arena",
                   .description = "the arena of ONNX Runtime",
                   .defaults = {{"extend", "power_of_two"},
                                {"first", "1MiB"},
                                {"largest", "1GiB"},
                                {"largest_rest", "128MiB"},
                                {"max_mem", "none"},
                                {"regrowth", "2MiB"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = settings_of(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = spec,
                               .unit = settings->growth == BfcSettings::Growth::requested ? BfcSettings::unit : 1_MiB,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Bfc>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
