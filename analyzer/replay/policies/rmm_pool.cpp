// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/rmm_pool.h"

#include "analyzer/replay/engine/engine.h"

namespace memreel {
namespace {

constexpr Bytes rounded_down(Bytes size) { return {size.count & ~(RmmPoolSettings::alignment.count - 1)}; }

constexpr std::string_view release_text = "a release such as 26.10",
                           order_text = "first_use or handles such as 0/3/1/2";

/// Year and month: "26.10".
using RmmRelease = std::pair<std::uint64_t, std::uint64_t>;

Result<RmmRelease> rmm_release(const PolicySpec& spec) {
  const std::string_view text = spec.parameters.at("release");
  const std::size_t dot = std::min(text.find('.'), text.size());
  const auto year = parse_integer(text.substr(0, dot));
  const auto month = parse_integer(text.substr(std::min(dot + 1, text.size())));
  if (!year || !month || *month > 12) return bad_parameter(spec, "release", release_text);
  return RmmRelease{*year, *month};
}

}  // namespace

Result<RmmStreamOrder> rmm_stream_order(const PolicySpec& spec) {
  RmmStreamOrder order;
  std::string_view text = spec.parameters.at("stream_order");
  if (text == "first_use") return order;
  constexpr std::size_t most = 64;
  while (order.size() < most) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    const auto handle = parse_integer(text.substr(0, slash));
    if (!handle) break;
    order.push_back(*handle);
    if (slash == text.size()) return order;
    text.remove_prefix(slash + 1);
  }
  return bad_parameter(spec, "stream_order", order_text);
}

AllowedValues rmm_size(std::string_view word) {
  return AllowedValues::checked("a multiple of 256 bytes such as 8GiB, or " + std::string(word));
}

Result<std::optional<Bytes>> rmm_size_parameter(const PolicySpec& spec, const std::string& parameter,
                                                std::string_view word) {
  const std::string& text = spec.parameters.at(parameter);
  if (text == word) return std::optional<Bytes>{};
  const auto size = parse_size(text);
  if (!size || rounded_down(*size) != *size) return bad_parameter(spec, parameter, rmm_size(word).text);
  return size;
}

std::vector<Parameter> RmmPoolSettings::parameters() {
  return {{"initial", "half", rmm_size("half"), "what the pool takes at once; half: of the device's free memory"},
          {"maximum", "none", rmm_size("none"), "what the pool may grow to"},
          {"reclaim", "by_release", AllowedValues::one_of({"true", "false", "by_release"}),
           "whether segments that are free go back to the device when memory runs out; by_release: from 26.10 on"},
          {"release", "26.10", AllowedValues::checked(std::string(release_text)), "whose rules to use"},
          {"stream_order", "first_use", AllowedValues::checked(std::string(order_text)),
           "in which order the lists of other streams are visited; RMM's own differs from run to run"}};
}

Result<RmmPoolSettings> RmmPoolSettings::of(const PolicySpec& spec) {
  const auto initial = rmm_size_parameter(spec, "initial", "half");
  if (!initial) return initial.error();
  const auto maximum = rmm_size_parameter(spec, "maximum", "none");
  if (!maximum) return maximum.error();
  if (maximum->has_value() && initial->value_or(0_B) > **maximum)
    return bad_parameter(spec, "initial", "within maximum=" + size_text(**maximum));
  const auto release = rmm_release(spec);
  if (!release) return release.error();
  constexpr RmmRelease first_that_reclaims{26, 10};
  const std::string& reclaim = spec.parameters.at("reclaim");
  auto order = rmm_stream_order(spec);
  if (!order) return order.error();
  return RmmPoolSettings{.initial = *initial,
                         .maximum = *maximum,
                         .reclaim = reclaim == "by_release" ? *release >= first_that_reclaims : reclaim == "true",
                         .stream_order = *std::move(order)};
}

Bytes RmmPoolSettings::initial_on(const Device& device) const {
  if (initial) return *initial;
  const Bytes half = rounded_down({device.capacity().value_or(0_B).count / 2});
  return std::min(half, maximum.value_or(half));
}

RmmPoolHeap::RmmPoolHeap(const RmmStreams& streams, const RmmPoolSettings& settings, Device& device)
    : device_(device), maximum_(settings.maximum), reclaims_(settings.reclaim) {
  for (std::uint32_t stream = 0; stream < streams.count(); ++stream) {
    lists_.push_back({.free = BestFitIndex(table_, 8), .stream = stream});
    list_of_.push_back(stream);
  }
  largest_.resize(streams.count());
  if (const Bytes initial = settings.initial_on(device); initial > 0_B)
    usable_ = expand(initial, initial, streams.default_stream()) != BlockId::none;
}

/// A list moved into another ends up with all neighbours merged, whatever the order of the moves. So the shorter list
/// is moved, and the streams swap lists if necessary.
void RmmPoolHeap::merge_lists(std::uint32_t own, std::uint32_t other) {
  if (list_of(other).count > list_of(own).count) {
    std::swap(list_of_[own], list_of_[other]);
    for (const std::uint32_t stream : {own, other}) {
      list_of(stream).stream = stream;
      largest_.set(stream, list_of(stream).free.largest());
    }
  }
  for (const BlockId id : list_of(other).free.ordered()) {
    take_out(id);
    table_[id].arena = list_of_[own];
    coalesce(id);
    put_free(id);
  }
}

Bytes RmmPoolHeap::size_to_grow(Bytes size) const {
  if (!maximum_) return std::max(size, use_.reserved);
  const Bytes remaining = *maximum_ - use_.reserved;
  return size <= remaining ? std::max(size, rounded_down({remaining.count / 2})) : 0_B;
}

/// By now all lists are merged into that of `stream`.
BlockId RmmPoolHeap::grow(Bytes size, std::uint32_t stream) {
  if (reclaims_ && size_to_grow(size) < size) reclaim(size, stream);
  return expand(size_to_grow(size), size, stream);
}

/// Gets a piece of `most` bytes, or less but at least `least`, from the device for a stream.
BlockId RmmPoolHeap::expand(Bytes most, Bytes least, std::uint32_t stream) {
  for (Bytes size = most; size >= least; size = std::max(least, rounded_down({size.count / 2}))) {
    if (const auto address = device_.reserve(size)) {
      use_.reserved += size;
      ++calls_.malloc;
      const BlockId block = table_.add(*address, size, list_of_[stream]);
      put_free(block);
      return block;
    }
    if (size == least) break;
  }
  return BlockId::none;
}

/// Releases unused pieces, by address, until a request of `size` bytes fits under the maximum.
void RmmPoolHeap::reclaim(Bytes size, std::uint32_t stream) {
  if (!maximum_ || size > *maximum_) return;
  std::vector<BlockId> whole;
  for (const BlockId id : list_of(stream).free.ordered())
    if (!table_[id].is_split()) whole.push_back(id);
  std::ranges::sort(whole, {}, [&](BlockId id) { return table_[id].address; });
  for (const BlockId id : whole) {
    if (*maximum_ - use_.reserved >= size) return;
    const Block block = table_[id];
    take_out(id);
    table_.remove(id);
    use_.reserved -= block.size;
    ++calls_.free;
    ++calls_.sync;  // cudaFree waits for the device
    device_.release(block.address, block.size);
  }
}

PolicyEntry rmm_pool_entry() {
  return {.info = {.name = "rmm.pool",
                   .description = "RAPIDS RMM's pool_memory_resource",
                   .parameters = RmmPoolSettings::parameters()},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = RmmPoolSettings::of(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = spec,
                               .unit = RmmPoolSettings::alignment,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<RmmPool>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
