// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/replay_result.h"
#include "analyzer/replay/policies/bfc.h"
#include "analyzer/replay/policies/rmm_binning.h"
#include "analyzer/replay/policies/rmm_pool.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/verify.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

struct SegmentEvent {
  std::uint32_t event = 0;
  bool taken = false;  // else released
  Address address;
  Bytes size;
};

std::vector<SegmentEvent> segments_of(const Trace& trace, const Prepared& heap) {
  std::vector<SegmentEvent> segments;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
    const EventKind kind = trace.events.kind(i);
    if (is_segment(kind) && trace.tables[trace.events.origin(i)].heap == heap.heap)
      segments.push_back({.event = i,
                          .taken = kind == EventKind::segment_alloc || kind == EventKind::segment_map,
                          .address = trace.events.address(i),
                          .size = trace.events.size(i)});
  }
  return segments;
}

std::string text_of(const SegmentEvent& segment) {
  return std::string(segment.taken ? "a segment" : "the return") + " of " + std::to_string(segment.size.count) +
         " bytes at " + hexadecimal(segment.address.value);
}

/// Compares one run with the recording: the segments as the device grants them, the addresses row by row.
class Comparison final : public Backing, public RowWatcher {
 public:
  /// `whole`: continue after a difference.
  Comparison(const Trace& trace, const Prepared& heap, const std::vector<SegmentEvent>& segments, bool whole)
      : trace_(trace),
        heap_(heap),
        segments_(segments),
        whole_(whole),
        logs_returns_(std::ranges::any_of(segments, [](const SegmentEvent& segment) { return !segment.taken; })) {
    result_ = {.heap = heap.heap, .device = heap.device};
    for (const SegmentEvent& segment : segments) {
      if (segment.taken)
        recorded_ += segment.size;
      else
        recorded_ -= std::min(recorded_, segment.size);
      result_.recorded_peak_reserved = std::max(result_.recorded_peak_reserved, recorded_);
    }
    result_.segment_events = segments.size();
  }

  bool reserve(Address address, Bytes size) override {
    see({.taken = true, .address = address, .size = size});
    return true;
  }
  void release(Address address, Bytes size) override {
    // For logs of pools that don't record releases, only compare what was taken.
    if (logs_returns_) see({.taken = false, .address = address, .size = size});
  }
  bool extend(Bytes size) override {
    // The policy counts addresses from 0 in its own range.
    if (next_ < segments_.size()) offset_ = segments_[next_].address - (Address{} + extended_);
    extended_ += size;
    see({.taken = true, .address = next_ < segments_.size() ? segments_[next_].address : Address{}, .size = size});
    return true;
  }
  void shrink(Bytes size) override { extended_ -= size; }

  bool done(std::size_t row, const Extent* extent) override {
    const Op op = heap_.op[row];
    if (op == Op::alloc) {
      const Address recorded = trace_.events.address(heap_.event[row]);
      ++result_.allocations;
      if (extent && (extent->address + offset_ == recorded || extent->size == Bytes{}))
        ++result_.address_matches;
      else
        differ(heap_.event[row],
               "alloc of " + std::to_string(heap_.size[row].count) + " bytes at " + hexadecimal(recorded.value),
               extent ? "the policy put it at " + hexadecimal((extent->address + offset_).value) : "the policy failed");
    }
    return whole_ || !result_.first_divergence;
  }

  Verification finish(const ReplayResult& replayed) {
    result_.policy = replayed.policy;
    result_.peak_reserved = replayed.peak_reserved;
    if (next_ < segments_.size()) differ(segments_[next_].event, text_of(segments_[next_]), "the policy did without");
    const auto failed = static_cast<std::uint64_t>(std::ranges::count(heap_.op, Op::alloc_failed));
    if (replayed.failed_allocations != failed)
      differ(replayed.first_failure ? replayed.first_failure->event : 0, counted(failed, "request") + " failed",
             counted(replayed.failed_allocations, "request") + " of the policy failed");
    return std::move(result_);
  }

  std::uint64_t address_matches() const { return result_.address_matches; }

 private:
  void see(const SegmentEvent& segment) {
    if (next_ == segments_.size())
      return differ(segments_.empty() ? 0 : segments_.back().event, "no more segments",
                    "the policy: " + text_of(segment));
    const SegmentEvent& recorded = segments_[next_++];
    if (segment.taken == recorded.taken && segment.size == recorded.size && segment.address == recorded.address)
      ++result_.segment_matches;
    else
      differ(recorded.event, text_of(recorded), "the policy: " + text_of(segment));
  }

  void differ(std::uint64_t event, std::string expected, std::string happened) {
    if (!result_.first_divergence)
      result_.first_divergence = {.event = event, .expected = std::move(expected), .happened = std::move(happened)};
  }

  const Trace& trace_;
  const Prepared& heap_;
  const std::vector<SegmentEvent>& segments_;
  bool whole_, logs_returns_;
  std::size_t next_ = 0;
  Bytes recorded_, extended_, offset_;
  Verification result_;
};

/// Replays a heap under one interpretation of what is not recorded.
class PlacementVerifier {
 public:
  PlacementVerifier(const Trace& trace, const Prepared& heap)
      : trace_(trace), heap_(heap), segments_(segments_of(trace, heap)) {
    if (const auto limit = heap.settings.find("limit"); limit != heap.settings.end())
      if (const auto capacity = parse_size(limit->second))
        device_ = {.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
  }

  Verification run(const BoundPolicy& policy, bool whole) const {
    Comparison comparison(trace_, heap_, segments_, whole);
    ReplayResult replayed = policy.run(heap_, {.device = device_, .backing = &comparison, .watcher = &comparison});
    replayed.policy = policy.spec;
    return comparison.finish(replayed);
  }

  /// Below a maximum, RMM's pool grows by half of what is left, so each segment implies a maximum. Returns the first
  /// one that reproduces everything, else the given one.
  Result<BoundPolicy> with_maximum(BoundPolicy policy) const {
    if (run(policy, false).exact()) return policy;
    constexpr std::size_t most_tried = 4;
    Bytes before;
    for (std::size_t i = 0; i < std::min(segments_.size(), most_tried); before += segments_[i++].size)
      for (const Bytes lost_by_rounding : {0_B, RmmPoolSettings::alignment}) {
        PolicySpec spec = policy.spec;
        spec.parameters["maximum"] = size_text(before + segments_[i].size * 2 + lost_by_rounding);
        Result<BoundPolicy> limited = bind_policy(spec);
        if (limited && run(*limited, false).exact()) return limited;
      }
    return policy;
  }

  /// RMM's bins show in what is taken before the program begins and in the place of its first requests. Tries adjacent
  /// powers of two and keeps those that reproduce the most before the first difference.
  PolicySpec with_bins(const PolicySpec& spec) const {
    std::vector<PolicySpec> candidates;
    for (Bytes largest = RmmPoolSettings::alignment; largest <= RmmBinningSettings::most; largest = largest * 2)
      for (Bytes smallest = RmmPoolSettings::alignment; smallest <= largest; smallest = smallest * 2) {
        PolicySpec& candidate = candidates.emplace_back(spec);
        candidate.parameters.try_emplace("smallest", size_text(smallest));
        candidate.parameters.try_emplace("largest", size_text(largest));
      }
    return repeating_most(spec, candidates);
  }

  /// The order in which RMM visited the streams is the one that reproduces the most of the history.
  PolicySpec with_stream_order(const PolicySpec& spec) const {
    std::vector<std::uint64_t> handles;
    for (const PoolStream& pool_stream : heap_.pool_streams) handles.push_back(pool_stream.stream_handle);
    std::ranges::sort(handles);
    handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
    constexpr std::size_t most_streams = 7;
    if (handles.size() > most_streams) return spec;
    std::vector<PolicySpec> candidates;
    do {
      std::string order;
      for (const std::uint64_t handle : handles) order += (order.empty() ? "" : "/") + std::to_string(handle);
      candidates.emplace_back(spec).parameters["stream_order"] = order;
    } while (std::ranges::next_permutation(handles).found);
    return repeating_most(spec, candidates);
  }

 private:
  /// The candidate that reproduces the most before the first difference; ties go to the first; `otherwise` if none
  /// reproduces anything.
  PolicySpec repeating_most(const PolicySpec& otherwise, const std::vector<PolicySpec>& candidates) const {
    const PolicySpec* best = &otherwise;
    std::uint64_t most = 0;
    for (const PolicySpec& candidate : candidates) {
      const Result<BoundPolicy> policy = bind_policy(candidate);
      if (!policy) continue;  // such as bins that end below the given ones
      const std::uint64_t repeated = run(*policy, false).address_matches;
      if (repeated > most) best = &candidate;
      most = std::max(most, repeated);
    }
    return *best;
  }

  const Trace& trace_;
  const Prepared& heap_;
  std::vector<SegmentEvent> segments_;
  DeviceModel device_;
};

/// The number of leading dot-separated parts that two names share.
std::size_t shared_parts(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (!a.empty() && !b.empty()) {
    const std::size_t end_a = std::min(a.find('.'), a.size()), end_b = std::min(b.find('.'), b.size());
    if (a.substr(0, end_a) != b.substr(0, end_b)) break;
    ++count;
    a.remove_prefix(std::min(end_a + 1, a.size()));
    b.remove_prefix(std::min(end_b + 1, b.size()));
  }
  return count;
}

const PolicyInfo* policy_named(std::string_view kind) {
  const PolicyInfo* best = nullptr;
  std::size_t most = 0;
  for (const PolicyInfo& info : policies()) {
    if (info.name == kind) return &info;
    const std::size_t shared = shared_parts(info.name, kind);
    if (shared > most)
      best = &info;
    else if (shared == most)
      best = nullptr;
    most = std::max(most, shared);
  }
  return best;
}

}  // namespace

std::optional<PolicySpec> recorded_policy(const Trace& trace, const Prepared& heap) {
  const auto kind = heap.settings.find("kind");
  if (heap.level != Level::framework || kind == heap.settings.end()) return std::nullopt;
  const PolicyInfo* const named = policy_named(kind->second);
  if (named == nullptr) return std::nullopt;
  PolicySpec spec{.name = std::string(named->name), .parameters = {}};
  for (const Parameter& parameter : named->parameters)
    if (const auto setting = heap.settings.find(parameter.name); setting != heap.settings.end())
      spec.parameters[parameter.name] = setting->second;
  const std::vector<SegmentEvent> segments = segments_of(trace, heap);
  const bool begins_with_memory =
      !segments.empty() && (heap.event.empty() || segments.front().event < heap.event.front());
  for (const char* const parameter : {"initial", "size"})
    if (begins_with_memory &&
        std::ranges::find(named->parameters, parameter, &Parameter::name) != named->parameters.end())
      spec.parameters.try_emplace(parameter, std::to_string(segments.front().size.count));
  return spec;
}

Result<Verification> verify_placement(const Trace& trace, const Prepared& heap, const PolicySpec& given) {
  Result<BoundPolicy> policy = bind_policy(given);
  if (!policy) return std::move(policy).error();
  const PlacementVerifier verifier(trace, heap);
  const auto searches = [&](const char* parameter) {
    return policy->spec.parameters.contains(parameter) && !given.parameters.contains(parameter);
  };
  const bool searches_bins = given.name == RmmBinningSettings::policy && (searches("smallest") || searches("largest"));
  const bool searches_order = searches("stream_order");
  PolicySpec spec = given;
  if (searches_bins) spec = verifier.with_bins(spec);
  if (searches_order) spec = verifier.with_stream_order(spec);
  policy = bind_policy(spec);
  if (!policy) return std::move(policy).error();
  if (searches("maximum")) policy = verifier.with_maximum(*std::move(policy));
  Verification verified = verifier.run(*policy, true);
  if (verified.allocations == 0 && std::ranges::count(heap.op, Op::alloc) > 0)
    return Error{.what = policy->spec.name + " counts bytes without placing them: there are no addresses to compare",
                 .where = "--policy",
                 .remedy = "name a policy that places blocks"};
  if (verified.segment_events == 0 && verified.peak_reserved > 0_B)
    return Error{.what = "nothing to verify: it does not say what the allocator got from its parent",
                 .where = trace.header.source_name,
                 .remedy = "log that, too: in a pool.jsonl, the lines \"up\""};
  const auto& parameters = policy->spec.parameters;
  if (searches_order)
    verified.rules = "visits streams in the order " + parameters.at("stream_order") +
                     ", the one that reproduces most of the history: RMM's own depends on the run";
  if (searches_bins) {
    verified.rules += (verified.rules.empty() ? "" : "; ") + ("bins of " + parameters.at("smallest")) + " to " +
                      parameters.at("largest") + ", which reproduce most of the history: the log does not record them";
    if (!verified.exact()) verified.rules += "; name them with --policy 'rmm.binning{smallest=SIZE,largest=SIZE}'";
  }
  return verified;
}

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
    if (const EventKind kind = trace.events.kind(i);
        (kind == EventKind::segment_alloc || kind == EventKind::segment_map) &&
        trace.tables[trace.events.origin(i)].heap == heap.heap)
      regions.push_back({.event = i, .address = trace.events.address(i), .size = trace.events.size(i)});
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
    if (sample >= trace_.events.count() || trace_.events.kind(sample) != EventKind::memory_info) return;
    const Bytes recorded = trace_.events.size(sample);
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
