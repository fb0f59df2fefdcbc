#include "analyzer/replay/verify.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/history/preexisting.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/recorded_capacity.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/recorded_run.h"
#include "analyzer/replay/recorded_torch.h"
#include "analyzer/replay/torch_history.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/replay/verify_bfc.h"
#include "analyzer/replay/verify_placement.h"
#include "formats/model/no_history.h"
#include "formats/model/origin_text.h"

namespace memreel {
namespace {

/// The free blocks that the request of `row` could choose from, closest in size first.
std::vector<std::string> free_blocks(const auto& policy, auto real, const Prepared& heap, std::size_t row) {
  const Bytes wanted = policy.settings().round(heap.size[row]);
  const std::vector<Block> blocks = policy.candidates(heap.pool_stream[row], heap.size[row]);
  const auto fits = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.size >= wanted; });
  const auto first = fits - std::min<std::ptrdiff_t>(fits - blocks.begin(), most_free_blocks / 2);
  std::vector<std::string> lines;
  for (auto block = first; block != blocks.end() && lines.size() < most_free_blocks; ++block)
    lines.push_back(std::to_string(block->size.count) + " bytes at " + hexadecimal(real(block->address).value) +
                    (block->is_split() ? "" : ", a whole segment") + (block->size < wanted ? ", too small" : ""));
  return lines;
}

/// Replays one heap under one interpretation of its settings.
class Verifier {
 public:
  Verifier(const Trace& trace, const Prepared& heap, const TorchSettings& settings, std::optional<Bytes> capacity)
      : trace_(trace), heap_(heap), settings_(settings), capacity_(capacity) {}

  Verification run() {
    result_ = {.heap = heap_.heap, .device = heap_.device, .policy = settings_.spec()};
    RecordedDevice device(trace_, heap_, capacity_);
    std::optional<std::size_t> diverged;
    with_torch(heap_, settings_, device, [&](auto& policy, auto real) {
      run_recorded(heap_, heap_.count(), policy, device, [&](std::size_t row, bool served) {
        // A segment mismatch comes first: it is the cause if the address differs too.
        if (device.mismatch()) diverge(*device.mismatch());
        if (heap_.op[row] == Op::alloc)
          compare_address(row, served ? std::optional(real(policy.block_of(heap_.slot[row]).address)) : std::nullopt);
        if (heap_.op[row] == Op::alloc_failed && served)
          diverge({heap_.event[row], "the request failed", "the policy served it"});
        if (result_.first_divergence && !diverged) diverged = row;
        return true;
      });
    });
    device.finish();
    if (device.mismatch()) diverge(*device.mismatch());
    if (diverged) result_.first_divergence->free_blocks = free_blocks_before(*diverged);
    result_.segment_events = device.segment_events();
    result_.segment_matches = device.matches();
    result_.peak_reserved = device.peak_reserved();
    result_.recorded_peak_reserved = device.recorded_peak_reserved();
    return std::move(result_);
  }

  /// Where the recorded and the replayed allocator put a request, if that is how they first differ.
  const std::optional<std::pair<Address, Address>>& misplaced() const { return misplaced_; }

 private:
  void compare_address(std::size_t row, std::optional<Address> address) {
    ++result_.allocations;
    const Address recorded = trace_.events.address(heap_.event[row]);
    if (address == recorded) {
      ++result_.address_matches;
      return;
    }
    if (!result_.first_divergence && address) misplaced_ = {recorded, *address};
    diverge({heap_.event[row],
             "alloc of " + std::to_string(heap_.size[row].count) + " bytes at " + hexadecimal(recorded.value),
             address ? "the policy put it at " + hexadecimal(address->value) : "the policy failed"});
  }

  void diverge(const RecordedDevice::Mismatch& mismatch) {
    if (result_.first_divergence) return;
    result_.first_divergence = {.event = mismatch.event, .expected = mismatch.expected, .happened = mismatch.happened};
  }

  std::vector<std::string> free_blocks_before(std::size_t row) const {
    if (heap_.op[row] != Op::alloc && heap_.op[row] != Op::alloc_failed) return {};
    RecordedDevice device(trace_, heap_, capacity_);
    return with_torch(heap_, settings_, device, [&](auto& policy, auto real) {
      run_recorded(heap_, row, policy, device, [](std::size_t, bool) { return true; });
      return free_blocks(policy, real, heap_, row);
    });
  }

  const Trace& trace_;
  const Prepared& heap_;
  const TorchSettings& settings_;
  std::optional<Bytes> capacity_;
  Verification result_;
  std::optional<std::pair<Address, Address>> misplaced_;
};

/// The order in which a heap's initial segments were taken is not recorded, but newer releases break ties by it. It is
/// learned from the requests that a replay puts elsewhere: what they got is older than what the replay gave them.
class SegmentAges {
 public:
  explicit SegmentAges(InitialState& initial) : initial_(initial) {}

  /// False if that contradicts what was learned before, or is not about two of the segments.
  bool learn(Address recorded, Address replayed) {
    const auto older = segment_at(recorded), younger = segment_at(replayed);
    if (!older || !younger || !learned_.insert({range_of(*older), range_of(*younger)}).second) return false;
    // All of an expandable segment moves at once.
    const Address moved = range_of(*older), before = range_of(*younger);
    if (moved == before) return false;
    std::vector<std::size_t> order;
    const auto add = [&](Address range) {
      for (std::size_t i = 0; i < initial_.segments.size(); ++i)
        if (range_of(i) == range) order.push_back(i);
    };
    for (std::size_t i = 0; i < initial_.segments.size(); ++i) {
      const Address range = range_of(i);
      if (range == moved || (i > 0 && range_of(i - 1) == range)) continue;
      if (range == before) add(moved);
      add(range);
    }
    InitialState sorted = initial_;
    for (std::size_t i = 0; i < order.size(); ++i) {
      sorted.segments[i] = initial_.segments[order[i]];
      sorted.pool_stream[i] = initial_.pool_stream[order[i]];
    }
    initial_ = std::move(sorted);
    return true;
  }

 private:
  Address range_of(std::size_t i) const { return initial_.segments[i].range; }
  std::optional<std::size_t> segment_at(Address address) const {
    const auto found = std::ranges::find_if(initial_.segments, [&](const InitialSegment& s) {
      return address >= s.address && address < s.address + s.size;
    });
    if (found == initial_.segments.end()) return std::nullopt;
    return static_cast<std::size_t>(found - initial_.segments.begin());
  }

  InitialState& initial_;
  std::set<std::pair<Address, Address>> learned_;
};

/// The first event that records different settings for the heap.
std::optional<std::uint64_t> change_of_settings(const Trace& trace, HeapId heap) {
  const EventColumns& events = trace.events;
  const auto same = [&](const auto& a, const auto& b) {
    return trace.tables[a.first] == trace.tables[b.first] && trace.tables[a.second] == trace.tables[b.second];
  };
  const Settings* before = nullptr;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind[i] != EventKind::settings || trace.tables[events.origin[i]].heap != heap) continue;
    const Settings& now = trace.tables[SettingsId{static_cast<std::uint32_t>(events.address_or_value[i])}];
    if (before != nullptr && !std::ranges::equal(before->entries, now.entries, same)) return i;
    before = &now;
  }
  return std::nullopt;
}

bool has_inferred_pools(const Trace& trace, HeapId heap) {
  return std::ranges::any_of(trace.tables.origins, [&](const Origin& origin) {
    return origin.heap == heap && trace.tables[origin.pool].inferred;
  });
}

/// A history of pinned host memory may be complete or incomplete independently of a device's.
std::string why_pinned_memory_is_not_reproducible(const Trace& trace, const Prepared& heap) {
  if (is_no_history(trace.losses.skipped) || !trace.read.intact()) return why_not_reproducible(trace, heap);
  for (std::uint32_t i = 0; i < trace.events.count(); ++i)
    if (trace.tables[trace.events.origin[i]].heap == heap.heap && trace.events.kind[i] == EventKind::segment_alloc)
      return is_preexisting(trace.tables, trace.events.stack[i])
                 ? "the history began late: what was cached before is not known"
                 : "";
  return {};
}

/// Why a replay may diverge that assumes the inferred pools and a single set of settings throughout.
std::string why_it_may_diverge(const Trace& trace, HeapId heap) {
  if (has_inferred_pools(trace, heap))
    return "pools that were gone before the snapshot are inferred: a divergence is expected where it does not tell "
           "them apart";
  if (const auto event = change_of_settings(trace, heap))
    return "the allocator's settings changed while the program ran (event " + std::to_string(*event) +
           "): the replay uses the last ones throughout";
  return "a snapshot holds only the allocator's final settings: different ones earlier would have this effect";
}

Verification verify_torch(const Trace& trace, Prepared& heap, const TorchSettings& settings) {
  constexpr std::uint64_t most_rows = 200'000'000;  // replayed to learn ages
  const std::optional<Bytes> capacity = recorded_capacity(trace, heap, settings);
  Verifier verifier(trace, heap, settings, capacity);
  Verification verified = verifier.run();
  if (!heap.initial || settings.release.tie_break() == TorchRelease::TieBreak::address) return verified;
  const InitialState as_recorded = *heap.initial;
  SegmentAges ages(*heap.initial);
  std::optional<std::pair<Address, Address>> misplaced = verifier.misplaced();
  for (std::uint64_t rows = 0; misplaced && rows < most_rows; rows += heap.count()) {
    if (!ages.learn(misplaced->first, misplaced->second)) break;
    Verifier again(trace, heap, settings, capacity);
    Verification tried = again.run();
    misplaced = again.misplaced();
    if (!tried.first_divergence || tried.address_matches > verified.address_matches) verified = std::move(tried);
  }
  heap.initial = as_recorded;
  return verified;
}

/// By the rules of the release named in the heap's settings, else by those that reproduce the history.
Verification verify_torch(const Trace& trace, Prepared& heap, const TorchRules& rules) {
  TorchSettings settings = TorchSettings::recorded(heap.settings);
  settings.release = rules.release;
  Verification verified = verify_torch(trace, heap, settings);
  verified.rules = rules.text;
  // Newer snapshots state their release, unless an older memreel imported them; recordings do not.
  if (rules.told || !verified.first_divergence || !why_not_reproducible(trace, heap).empty()) return verified;
  for (const unsigned other : {13U, 12U, 4U, 3U}) {
    settings.release = {other};
    Verification tried = verify_torch(trace, heap, settings);
    if (tried.first_divergence) continue;
    tried.rules = torch_releases(settings.release) + ": the history does not state its release, and the rules of " +
                  std::string(rules.release.rules()) + " diverge from it";
    return tried;
  }
  verified.rules += ": the history does not state its release, and no other rules reproduce it";
  return verified;
}

}  // namespace

Result<std::vector<Verification>> verify(const Trace& trace, const VerifyOptions& options) {
  std::vector<Verification> verifications;
  if (!has_history(trace))
    return Error{
        .what = "nothing to verify: it holds what was live at an instant, and not how it was placed",
        .where = trace.header.source_name,
        .remedy = "record a history, with torch.cuda.memory._record_memory_history() before the model is built"};
  std::vector<Prepared> heaps = prepare(trace);
  for (Prepared& heap : heaps) {
    const auto policy = options.policy ? options.policy : recorded_policy(trace, heap);
    if (policy && heap.level == Level::framework) {
      Result<Verification> verified = verify_placement(trace, heap, *policy);
      if (!verified) return std::move(verified).error();
      verifications.push_back(*std::move(verified));
      if (is_pinned_memory(heap)) verifications.back().note = why_pinned_memory_is_not_reproducible(trace, heap);
      continue;
    }
    if (is_bfc(heap)) verifications.push_back(verify_bfc(trace, heap));
    if (!is_torch(trace, heap)) continue;
    const Result<TorchRules> rules = torch_rules(heap.settings, options.torch_release);
    if (!rules) return rules.error();
    verifications.push_back(verify_torch(trace, heap, *rules));
    Verification& verified = verifications.back();
    verified.note = why_not_reproducible(trace, heap);
    if (verified.note.empty() && verified.first_divergence) verified.note = why_it_may_diverge(trace, heap.heap);
  }
  if (verifications.empty())
    return Error{.what = "nothing to verify: no heap of this trace records an allocator whose rules memreel knows",
                 .where = trace.header.source_name,
                 .remedy =
                     "supported: PyTorch's, from torch.cuda.memory._dump_snapshot(), TensorFlow's and JAX's, from "
                     "jax.profiler.trace(), and pools that pool.jsonl or --policy names"};
  return verifications;
}

}  // namespace memreel
