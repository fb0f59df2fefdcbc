#include "analyzer/policies/bfc.h"

#include <utility>

#include "analyzer/engine/engine.h"

namespace memreel {
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

}  // namespace memreel
