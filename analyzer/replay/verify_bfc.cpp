// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/verify.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/engine.h"
#include "analyzer/engine/parameters.h"
#include "analyzer/policies/bfc.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

std::string text_of(Bytes size, Address address) {
  return std::to_string(size.count) + " bytes at " + hexadecimal(address.value);
}

struct DeducedRegion {
  std::uint32_t event = 0;
  Address address;
  Bytes size;
};

std::vector<DeducedRegion> regions_of(const Trace& trace, const Prepared& heap) {
  std::vector<DeducedRegion> regions;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i)
    if (const EventKind kind = trace.events.kind[i];
        (kind == EventKind::segment_alloc || kind == EventKind::segment_map) &&
        trace.tables[trace.events.origin[i]].heap == heap.heap)
      regions.push_back({.event = i, .address = trace.events.address(i), .size = trace.events.size[i]});
  return regions;
}

/// The device at the time of recording: grants the recorded regions, refuses more.
class RegionDevice final : public Device {
 public:
  explicit RegionDevice(const std::vector<DeducedRegion>& regions) : regions_(regions) {
    for (const DeducedRegion& region : regions) elsewhere_ = std::max(elsewhere_, region.address + region.size);
  }

  /// Call before the policy executes `event`. The regions it takes are recorded before it.
  void begin(std::uint32_t event) { event_ = event; }
  /// Call after that.
  void end() {
    for (; const DeducedRegion* missed = due(); ++next_)
      differ("a region of " + text_of(missed->size, missed->address), "the policy did without");
  }

  std::optional<Address> reserve(Bytes size) override {
    const DeducedRegion* const recorded = due();
    if (recorded && size > recorded->size) return std::nullopt;
    reserved_ += size;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    if (recorded && size == recorded->size) {
      ++next_;
      ++matches_;
      return recorded->address;
    }
    differ(recorded ? "a region of " + text_of(recorded->size, recorded->address) : "no region",
           "the policy took a region of " + std::to_string(size.count) + " bytes");
    return std::exchange(elsewhere_, elsewhere_ + size);
  }

  void release(Address address, Bytes size) override {
    reserved_ -= size;
    differ("no region", "the policy gave back " + text_of(size, address));
  }

  std::optional<Bytes> capacity() const override { return std::nullopt; }

  std::uint64_t matches() const { return matches_; }
  Bytes peak_reserved() const { return peak_reserved_; }
  const std::optional<Divergence>& divergence() const { return divergence_; }

 private:
  const DeducedRegion* due() const {
    return next_ < regions_.size() && regions_[next_].event < event_ ? &regions_[next_] : nullptr;
  }
  void differ(std::string expected, std::string happened) {
    if (!divergence_) divergence_ = {.event = event_, .expected = std::move(expected), .happened = std::move(happened)};
  }

  const std::vector<DeducedRegion>& regions_;
  std::size_t next_ = 0;
  std::uint32_t event_ = 0;
  std::uint64_t matches_ = 0;
  Bytes reserved_, peak_reserved_;
  Address elsewhere_;  // for regions that were not recorded
  std::optional<Divergence> divergence_;
};

/// Runs rows 0 .. `rows` - 1. Calls `after(row, served)` after each.
template <class After>
void run(const Prepared& heap, std::size_t rows, Bfc& policy, RegionDevice& device, After after) {
  FailedSlots failed(heap.slot_count);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint32_t slot = heap.slot[row];
    bool served = true;
    device.begin(heap.event[row]);
    if (heap.op[row] == Op::alloc) {
      served = policy.allocate(slot, heap.size[row], heap.pool_stream[row]);
      if (!served) failed.add(slot);
    } else if (heap.op[row] == Op::free) {
      if (failed.contains(slot))
        failed.remove(slot);
      else
        policy.free(slot, heap.size[row]);
    }
    device.end();
    after(row, served);
  }
}

/// Replays one heap under one interpretation of its settings.
class BfcVerifier {
 public:
  BfcVerifier(const Trace& trace, const Prepared& heap, const BfcSettings& settings)
      : trace_(trace), heap_(heap), settings_(settings), regions_(regions_of(trace, heap)) {}

  Verification run_all() {
    result_ = {.heap = heap_.heap, .device = heap_.device, .policy = settings_.spec("tf.bfc")};
    RegionDevice device(regions_);
    Bfc policy(heap_, settings_, device);
    std::optional<std::size_t> diverged;
    run(heap_, heap_.count(), policy, device, [&](std::size_t row, bool served) {
      // A region mismatch comes first: it is the cause if the address differs too.
      if (device.divergence() && !result_.first_divergence) result_.first_divergence = *device.divergence();
      if (heap_.op[row] == Op::alloc) compare_address(row, served ? &policy.block_of(heap_.slot[row]) : nullptr);
      compare_use(row, policy.use());
      if (result_.first_divergence && !diverged) diverged = row;
    });
    if (diverged) result_.first_divergence->free_blocks = free_blocks_before(*diverged);
    result_.segment_events = regions_.size();
    result_.segment_matches = device.matches();
    result_.peak_reserved = device.peak_reserved();
    for (const DeducedRegion& region : regions_) result_.recorded_peak_reserved += region.size;
    return std::move(result_);
  }

 private:
  void compare_address(std::size_t row, const Block* block) {
    ++result_.allocations;
    const Address recorded = trace_.events.address(heap_.event[row]);
    if (block && block->address == recorded)
      ++result_.address_matches;
    else
      diverge(row, "alloc of " + text_of(heap_.size[row], recorded),
              block ? "the policy put it at " + hexadecimal(block->address.value) : "the policy failed");
  }

  /// Compares with the sample that follows the event.
  void compare_use(std::size_t row, const HeapUse& use) {
    const std::uint32_t sample = heap_.event[row] + 1;
    if (sample >= trace_.events.count() || trace_.events.kind[sample] != EventKind::memory_info) return;
    const Bytes recorded = trace_.events.size[sample];
    if (use.allocated != recorded)
      diverge(row, std::to_string(recorded.count) + " bytes in use after it",
              std::to_string(use.allocated.count) + " of the policy");
  }

  void diverge(std::size_t row, std::string expected, std::string happened) {
    if (!result_.first_divergence)
      result_.first_divergence = {
          .event = heap_.event[row], .expected = std::move(expected), .happened = std::move(happened)};
  }

  /// The chunks that the request of `row` could choose from, closest in size first.
  std::vector<std::string> free_blocks_before(std::size_t row) const {
    if (heap_.op[row] != Op::alloc) return {};
    RegionDevice device(regions_);
    Bfc policy(heap_, settings_, device);
    run(heap_, row, policy, device, [](std::size_t, bool) {});
    const std::vector<Block> chunks = policy.candidates();
    const Bytes wanted = round_up(heap_.size[row], BfcSettings::unit);
    const auto fits = std::ranges::find_if(chunks, [&](const Block& chunk) { return chunk.size >= wanted; });
    std::vector<std::string> lines;
    for (auto chunk = fits - std::min<std::ptrdiff_t>(fits - chunks.begin(), most_free_blocks / 2);
         chunk != chunks.end() && lines.size() < most_free_blocks; ++chunk)
      lines.push_back(text_of(chunk->size, chunk->address) + (chunk->is_split() ? "" : ", a whole region") +
                      (chunk->size < wanted ? ", too small" : ""));
    return lines;
  }

  const Trace& trace_;
  const Prepared& heap_;
  BfcSettings settings_;
  std::vector<DeducedRegion> regions_;
  Verification result_;
};

const std::string* setting(const Prepared& heap, const std::string& name) {
  const auto found = heap.settings.find(name);
  return found == heap.settings.end() ? nullptr : &found->second;
}

/// Why exactness can't be claimed, in one line; empty if it can.
std::string why_not_exact(const Trace& trace, const Prepared& heap) {
  const Losses& losses = trace.losses;
  if (losses.ring_full > 0)
    return "the profiler dropped events: the bytes in use change " + std::to_string(losses.ring_full) +
           " times without one";
  if (!trace.read.intact()) return "the file is damaged: events are missing";
  if (const std::string* regions = setting(heap, "regions"); regions && *regions == "deduced") return {};
  return losses.began_late ? "the profile began late: the addresses of memory held by then are unknown"
                           : "no size of the allocator's regions agrees with all of its fragmentation figures";
}

/// The possible settings of the allocator, likelier ones first.
std::vector<BfcSettings> readings_of(const Prepared& heap) {
  BfcSettings settings;
  if (const std::string* limit = setting(heap, "memory_limit"))
    if (const auto count = parse_integer(*limit)) settings.limit = std::min(Bytes{*count}, BfcSettings::unlimited);
  if (const std::string* page = setting(heap, "page"))
    if (const auto size = parse_integer(*page); size && std::has_single_bit(*size))
      settings.page = std::clamp(Bytes{*size}, BfcSettings::unit, 1_GiB);
  const std::string* growth = setting(heap, "allow_growth");
  if (!growth || *growth != "false") return {settings};
  settings.growth = BfcSettings::Growth::none;
  BfcSettings partitioned = settings;
  partitioned.spatial_partitioning = true;
  return {partitioned, settings};
}

}  // namespace

bool is_bfc(const Prepared& heap) {
  const std::string* allocator = setting(heap, "allocator");
  return heap.level == Level::framework && allocator && *allocator == "bfc";
}

Verification verify_bfc(const Trace& trace, const Prepared& heap) {
  std::optional<Verification> best;
  for (const BfcSettings& settings : readings_of(heap)) {
    Verification verification = BfcVerifier(trace, heap, settings).run_all();
    verification.note = why_not_exact(trace, heap);
    if (!best || (!best->exact() && (verification.exact() || verification.address_matches > best->address_matches)))
      best = std::move(verification);
  }
  return *std::move(best);
}

}  // namespace memreel
