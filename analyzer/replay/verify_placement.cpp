// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/verify.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/parameters.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/replay_result.h"
#include "analyzer/policies/rmm_binning.h"
#include "analyzer/policies/rmm_pool.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/replay.h"
#include "formats/model/stack_text.h"

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
    const EventKind kind = trace.events.kind[i];
    if (is_segment(kind) && trace.tables[trace.events.origin[i]].heap == heap.heap)
      segments.push_back({.event = i,
                          .taken = kind == EventKind::segment_alloc || kind == EventKind::segment_map,
                          .address = trace.events.address(i),
                          .size = trace.events.size[i]});
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
      differ(replayed.first_failure ? replayed.first_failure->event : 0, std::to_string(failed) + " requests failed",
             std::to_string(replayed.failed_allocations) + " requests of the policy failed");
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

}  // namespace memreel
