// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/verify.h"

#include <algorithm>
#include <span>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/torch_rules.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// The free blocks that the request of `row` could choose from, closest in size first.
std::vector<std::string> free_blocks(const auto& policy, auto real, const Prepared& heap, std::size_t row) {
  const Bytes wanted = policy.settings().round(heap.size[row]);
  const std::vector<BlockId> blocks = policy.candidates(heap.pool_stream[row], heap.size[row]);
  const auto fits = std::ranges::find_if(blocks, [&](BlockId id) { return policy.blocks()[id].size >= wanted; });
  const auto first = fits - std::min<std::ptrdiff_t>(fits - blocks.begin(), most_free_blocks / 2);
  std::vector<std::string> lines;
  for (auto id = first; id != blocks.end() && lines.size() < most_free_blocks; ++id) {
    const Block& block = policy.blocks()[*id];
    lines.push_back(std::to_string(block.size.count) + " bytes at " + hexadecimal(real(block.address).value) +
                    (block.is_split() ? "" : ", a whole segment") + (block.size < wanted ? ", too small" : ""));
  }
  return lines;
}

/// The free block around an address, or, if there is none, the smallest that could serve a request.
std::optional<FreePlace> free_place(const auto& policy, auto real, std::optional<Address> address, Bytes wanted,
                                    std::span<const BlockId> candidates) {
  const BlockTable& blocks = policy.blocks();
  const auto place = [&](BlockId id) {
    return FreePlace{real(blocks[id].address), blocks[id].size, policy.initial_block_of(id)};
  };
  if (!address) {
    const auto fits = std::ranges::find_if(candidates, [&](BlockId id) { return blocks[id].size >= wanted; });
    return fits == candidates.end() ? std::nullopt : std::optional(place(*fits));
  }
  for (std::uint32_t i = 0; i < blocks.limit(); ++i) {
    const Block& block = blocks[BlockId{i}];
    if (block.size == 0_B || block.state != BlockState::free) continue;
    const Address begin = real(block.address);
    if (begin <= *address && *address < begin + block.size) return place(BlockId{i});
  }
  return std::nullopt;
}

/// Replays one heap under one interpretation of its settings.
class Verifier {
 public:
  Verifier(const Trace& trace, const Prepared& heap, const TorchSettings& settings, std::optional<Bytes> capacity,
           const TorchInitialAges& ages)
      : trace_(trace), heap_(heap), settings_(settings), capacity_(capacity), ages_(ages) {}

  Verification run() { return replay(true); }

  /// Where the replay first differs, if it does; it ends there.
  std::optional<LateDifference> difference() {
    replay(false);
    if (!diverged_) return std::nullopt;
    LateDifference found = *diverged_;
    const bool allocates = heap_.op[found.row] == Op::alloc || heap_.op[found.row] == Op::alloc_failed;
    if (allocates) found.released = released_for(found.row);
    RecordedDevice device(trace_, heap_, capacity_);
    with_torch(heap_, settings_, device, [&](auto& policy, auto real) {
      policy.set_initial_ages(ages_);
      run_recorded(heap_, found.row, policy, device, [](std::size_t, bool) { return true; });
      if (released_ours_ || released_recorded_) {
        if (released_recorded_) found.recorded = free_place(policy, real, released_recorded_, {}, {});
        if (released_ours_) found.replayed = free_place(policy, real, released_ours_, {}, {});
        return;
      }
      if (!allocates) return;
      found.wanted = settings_.round(heap_.size[found.row]);
      const std::vector<BlockId> candidates = policy.candidates(heap_.pool_stream[found.row], heap_.size[found.row]);
      if (heap_.op[found.row] == Op::alloc)
        found.recorded = free_place(policy, real, trace_.events.address(heap_.event[found.row]), {}, {});
      found.replayed = free_place(policy, real, replayed_, found.wanted, candidates);
    });
    return found;
  }

 private:
  Verification replay(bool whole) {
    result_ = {.heap = heap_.heap, .device = heap_.device, .policy = spec_of(settings_)};
    RecordedDevice device(trace_, heap_, capacity_);
    with_torch(heap_, settings_, device, [&](auto& policy, auto real) {
      policy.set_initial_ages(ages_);
      run_recorded(heap_, heap_.count(), policy, device, [&](std::size_t row, bool served) {
        // A segment mismatch comes first: it is the cause if the address differs too.
        if (device.mismatch()) diverge(*device.mismatch());
        std::optional<Address> address;
        if (heap_.op[row] == Op::alloc) {
          if (served) address = real(policy.block_of(heap_.slot[row]).address);
          compare_address(row, address);
        }
        if (heap_.op[row] == Op::alloc_failed && served)
          diverge({heap_.event[row], "the request failed", "the policy served it"});
        if (result_.first_divergence && !diverged_) note(row, device, address);
        return whole || !diverged_;
      });
    });
    if (!whole && diverged_) return std::move(result_);
    device.finish();
    if (device.mismatch()) diverge(*device.mismatch());
    if (result_.first_divergence && !diverged_) note(heap_.count() - 1, device, std::nullopt);
    if (diverged_) result_.first_divergence->free_blocks = free_blocks_before(diverged_->row);
    result_.segment_events = device.segment_events();
    result_.segment_matches = device.matches();
    result_.peak_reserved = device.peak_reserved();
    result_.recorded_peak_reserved = device.recorded_peak_reserved();
    return std::move(result_);
  }

  void note(std::size_t row, const RecordedDevice& device, std::optional<Address> replayed) {
    diverged_ = LateDifference{.row = row};
    replayed_ = replayed;
    if (!device.mismatch()) return;
    diverged_->segment_event = device.mismatch()->position;
    if (device.mismatch()->recorded) released_recorded_ = device.mismatch()->recorded->address;
    if (device.mismatch()->ours) released_ours_ = device.mismatch()->ours->address;
  }

  void compare_address(std::size_t row, std::optional<Address> address) {
    ++result_.allocations;
    const Address recorded = trace_.events.address(heap_.event[row]);
    if (address == recorded) {
      ++result_.address_matches;
      return;
    }
    diverge({heap_.event[row],
             "alloc of " + std::to_string(heap_.size[row].count) + " bytes at " + hexadecimal(recorded.value),
             address ? "the policy put it at " + hexadecimal(address->value) : "the policy failed"});
  }

  void diverge(const RecordedDevice::Mismatch& mismatch) {
    if (result_.first_divergence) return;
    result_.first_divergence = {.event = mismatch.event, .expected = mismatch.expected, .happened = mismatch.happened};
  }

  /// What the recorded allocator released to serve the request of a row.
  std::vector<Address> released_for(std::size_t row) const {
    std::vector<Address> released;
    for (std::uint32_t i = heap_.event[row]; i-- > 0;) {
      if (trace_.tables[trace_.events.origin(i)].heap != heap_.heap) continue;
      if (!is_segment(trace_.events.kind(i))) break;
      if (trace_.events.kind(i) == EventKind::segment_free) released.push_back(trace_.events.address(i));
    }
    return released;
  }

  std::vector<std::string> free_blocks_before(std::size_t row) const {
    if (heap_.op[row] != Op::alloc && heap_.op[row] != Op::alloc_failed) return {};
    RecordedDevice device(trace_, heap_, capacity_);
    return with_torch(heap_, settings_, device, [&](auto& policy, auto real) {
      policy.set_initial_ages(ages_);
      run_recorded(heap_, row, policy, device, [](std::size_t, bool) { return true; });
      return free_blocks(policy, real, heap_, row);
    });
  }

  const Trace& trace_;
  const Prepared& heap_;
  const TorchSettings& settings_;
  std::optional<Bytes> capacity_;
  const TorchInitialAges& ages_;
  Verification result_;
  std::optional<LateDifference> diverged_;
  std::optional<Address> replayed_, released_recorded_, released_ours_;  // where it first differs
};

/// The first event that records different settings for the heap.
std::optional<std::uint64_t> change_of_settings(const Trace& trace, HeapId heap) {
  const Events& events = trace.events;
  const auto same = [&](const auto& a, const auto& b) {
    return trace.tables[a.first] == trace.tables[b.first] && trace.tables[a.second] == trace.tables[b.second];
  };
  const Settings* before = nullptr;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind(i) != EventKind::settings || trace.tables[events.origin(i)].heap != heap) continue;
    const Settings& now = trace.tables[SettingsId{static_cast<std::uint32_t>(events.address_or_value(i))}];
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
    if (trace.tables[trace.events.origin(i)].heap == heap.heap && trace.events.kind(i) == EventKind::segment_alloc)
      return is_preexisting(trace.tables, trace.events.stack(i))
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

/// Tries the states that a late history may have begun in, until one reproduces it or none explains a difference.
Verification verify_torch(const Trace& trace, Prepared& heap, const TorchSettings& settings) {
  constexpr std::uint64_t most_rows = 200'000'000;  // replayed in search of the state
  const std::optional<Bytes> capacity = recorded_capacity(trace, heap, settings);
  const Verification verified = Verifier(trace, heap, settings, capacity, {}).run();
  if (!heap.initial || !verified.first_divergence) return verified;
  LateStart start{.state = *heap.initial, .ages = {}, .older = {}};
  std::uint64_t rows = 0;
  const auto difference_of = [&](const LateStart& from) {
    heap.initial = from.state;
    auto difference = Verifier(trace, heap, settings, capacity, from.ages).difference();
    rows += 2 * (difference ? difference->row : heap.count());
    return difference;
  };
  const InitialState assumed = *heap.initial;
  std::optional<LateDifference> difference = difference_of(start);
  for (bool explained = true; explained && difference && rows < most_rows;) {
    explained = false;
    for (LateStart& other : start.explanations(*difference, settings)) {
      auto then = difference_of(other);
      while (then && !then->is_after(*difference) && rows < most_rows) {
        std::optional<LateStart> shorter = other.shortened(*then, settings);
        if (!shorter) break;
        other = *std::move(shorter);
        then = difference_of(other);
      }
      explained = !then || then->is_after(*difference);
      if (!explained) continue;
      start = std::move(other);
      difference = then;
      break;
    }
  }
  heap.initial = start.state;
  Verification best = Verifier(trace, heap, settings, capacity, start.ages).run();
  heap.initial = assumed;
  if (best.first_divergence) best.note = "the history does not tell " + unknown_of(*difference, settings);
  return best;
}

/// By the rules of the release named in the heap's settings, else by those that reproduce the history.
Verification verify_torch(const Trace& trace, Prepared& heap, const TorchRules& rules) {
  TorchSettings settings = TorchSettings::recorded(heap.settings);
  settings.release = rules.release;
  Verification verified = verify_torch(trace, heap, settings);
  verified.rules = rules.text;
  // Newer snapshots state their release, unless an older memreel imported them; recordings do not.
  if (rules.told || !verified.first_divergence || !why_not_reproducible(trace, heap).empty()) return verified;
  for (const TorchRelease other : TorchRelease::distinct()) {
    if (other.rules() == rules.release.rules()) continue;
    settings.release = other;
    Verification tried = verify_torch(trace, heap, settings);
    if (tried.first_divergence) continue;
    tried.rules = torch_releases(settings.release) + ": the history does not state its release, and the rules of " +
                  rules.release.rules() + " diverge from it";
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
    if (const std::string why = why_not_reproducible(trace, heap); !why.empty() || !verified.first_divergence)
      verified.note = why;
    else if (verified.note.empty() || has_inferred_pools(trace, heap.heap))
      verified.note = why_it_may_diverge(trace, heap.heap);
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
