// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/shared_device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/least_capacity.h"
#include "analyzer/replay/policies/own_policy.h"
#include "analyzer/replay/recorded_device.h"

namespace memreel {
namespace {

/// More rounds than heaps that take turns in refusing each other need; each costs a replay.
constexpr int most_rounds = 12;

/// The figures of a replay beside its heaps', on their way from another process.
struct Figures {
  Bytes peak_reserved, beside_at_peak;
  std::uint64_t failed_allocations = 0;
  std::uint32_t peak_event = 0;
  bool unfinished = false;
};

}  // namespace

Prepared without_rows(const Prepared& heap) {
  return {.heap = heap.heap,
          .device = heap.device,
          .level = heap.level,
          .pooled = heap.pooled,
          .op = {},
          .slot = {},
          .pool_stream = {},
          .size = {},
          .event = {},
          .address = {},
          .pool_streams = heap.pool_streams,
          .slot_count = heap.slot_count,
          .keeps_addresses = heap.keeps_addresses,
          .segments = heap.segments,
          .settings = heap.settings,
          .step_ends = {},
          .initial = heap.initial,
          .implied_capacity = heap.implied_capacity,
          .restored_segments = heap.restored_segments};
}

/// One heap's rows, turn by turn, and the device that grants it what the others leave.
class HeapTurns final : public RowSource, public Backing {
 public:
  /// `row_by_row`: for a policy that would not notice a refusal among several rows.
  HeapTurns(const SharedDevice& device, std::uint32_t heap, std::optional<Bytes> capacity, bool row_by_row,
            std::vector<Bytes> others, std::vector<SharedDevice::Use>& uses)
      : device_(device),
        heap_(heap),
        capacity_(capacity),
        row_by_row_(row_by_row),
        others_(std::move(others)),
        uses_(uses) {
    while (turn_ < device_.turns_.size() && device_.turns_[turn_].heap != heap_) ++turn_;
  }

  std::size_t row_count(HeapId) const override { return device_.heaps_[heap_]->count(); }

  void for_each_piece(HeapId, const std::function<bool(const Prepared&)>& take) const override {
    const Prepared& all = *device_.heaps_[heap_];
    Prepared piece;
    const auto copy = [](const auto& from, std::uint64_t begin, std::uint64_t end, auto& into) {
      if (from.empty()) return;
      into.assign(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end));
    };
    bool goes_on = true;
    for (; turn_ < device_.turns_.size(); ++turn_) {
      const SharedDevice::Turn& turn = device_.turns_[turn_];
      if (turn.heap != heap_) continue;
      uses_[turn_] = {.most = held_, .end = held_};
      if (!goes_on) continue;
      for (std::uint64_t begin = turn.begin; begin < turn.end && goes_on;) {
        const std::uint64_t end = row_by_row_ ? begin + 1 : turn.end;
        copy(all.op, begin, end, piece.op);
        copy(all.slot, begin, end, piece.slot);
        copy(all.pool_stream, begin, end, piece.pool_stream);
        copy(all.size, begin, end, piece.size);
        copy(all.event, begin, end, piece.event);
        copy(all.address, begin, end, piece.address);
        goes_on = take(piece);
        begin = end;
      }
      uses_[turn_].end = held_;
    }
  }

  bool reserve(Address, Bytes size) override { return extend(size); }
  void release(Address, Bytes size) override { shrink(size); }
  bool extend(Bytes size) override {
    if (capacity_ && turn_ < others_.size() &&
        (others_[turn_] > *capacity_ || held_ + size > *capacity_ - others_[turn_]))
      return false;
    held_ += size;
    if (turn_ < uses_.size()) uses_[turn_].most = std::max(uses_[turn_].most, held_);
    return true;
  }
  void shrink(Bytes size) override { held_ -= std::min(size, held_); }

 private:
  const SharedDevice& device_;
  std::uint32_t heap_;
  std::optional<Bytes> capacity_;
  bool row_by_row_;
  std::vector<Bytes> others_;
  std::vector<SharedDevice::Use>& uses_;
  mutable std::size_t turn_ = 0;
  Bytes held_;
};

SharedDevice::SharedDevice(std::vector<const Prepared*> heaps, std::span<const HeldFrom> beside)
    : heaps_(std::move(heaps)) {
  std::vector<std::size_t> row(heaps_.size());
  Bytes held;
  constexpr std::uint64_t past = std::numeric_limits<std::uint64_t>::max();
  const auto next_event = [&](std::size_t h) {
    return row[h] < heaps_[h]->count() ? std::uint64_t{heaps_[h]->event[row[h]]} : past;
  };
  for (;;) {
    std::uint64_t first = past, second = beside.empty() ? past : beside.front().event;
    std::size_t which = heaps_.size();
    for (std::size_t h = 0; h < heaps_.size(); ++h) {
      const std::uint64_t event = next_event(h);
      if (event < first) {
        second = std::min(second, first);
        first = event;
        which = h;
      } else {
        second = std::min(second, event);
      }
    }
    if (!beside.empty() && beside.front().event < first) {
      held = beside.front().held;
      turns_.push_back({.heap = none_, .event = beside.front().event, .begin = 0, .end = 0, .beside = held});
      beside = beside.subspan(1);
      continue;
    }
    if (which == heaps_.size()) return;
    const std::vector<std::uint32_t>& events = heaps_[which]->event;
    const auto end = std::lower_bound(events.begin() + static_cast<std::ptrdiff_t>(row[which]), events.end(), second);
    const std::size_t begin =
        std::exchange(row[which], std::max(row[which] + 1, static_cast<std::size_t>(end - events.begin())));
    turns_.push_back({.heap = static_cast<std::uint32_t>(which),
                      .event = events[begin],
                      .begin = begin,
                      .end = row[which],
                      .beside = held});
  }
}

std::vector<Bytes> SharedDevice::held_by_others(std::uint32_t heap, std::span<const Use> uses) const {
  std::vector<Bytes> held(turns_.size()), now(heaps_.size());
  Bytes all;
  for (std::size_t t = 0; t < turns_.size(); ++t) {
    held[t] = all + turns_[t].beside;
    const std::uint32_t of = turns_[t].heap;
    if (of == heap || of == none_) continue;
    all = all - now[of] + uses[t].end;
    now[of] = uses[t].end;
  }
  return held;
}

void SharedDevice::find_peak(std::span<const Use> uses, SharedReplay& result) const {
  std::vector<Bytes> now(heaps_.size());
  Bytes all;
  for (std::size_t t = 0; t < turns_.size(); ++t) {
    const Turn& turn = turns_[t];
    Bytes total = all + turn.beside;
    if (turn.heap != none_) total = total - now[turn.heap] + uses[t].most;
    if (total > result.peak_reserved) {
      result.peak_reserved = total;
      result.peak_event = turn.event;
      result.beside_at_peak = turn.beside;
    }
    if (turn.heap == none_) continue;
    all = all - now[turn.heap] + uses[t].end;
    now[turn.heap] = uses[t].end;
  }
}

/// The number of turns that begin an excess.
std::uint64_t SharedDevice::times_over(Bytes capacity, std::span<const Use> uses) const {
  std::vector<Bytes> now(heaps_.size());
  Bytes all;
  std::uint64_t times = 0;
  bool was_over = false;
  for (std::size_t t = 0; t < turns_.size(); ++t) {
    const Turn& turn = turns_[t];
    Bytes most = all;
    if (turn.heap != none_) {
      most = all - now[turn.heap] + uses[t].most;
      all = all - now[turn.heap] + uses[t].end;
      now[turn.heap] = uses[t].end;
    }
    const bool is_over = most + turn.beside > capacity;
    times += is_over && !was_over ? 1 : 0;
    was_over = is_over;
  }
  return times;
}

SharedReplay SharedDevice::replay(const BoundPolicy& policy, const std::optional<DeviceModel>& device,
                                  const RunOptions& options) const {
  if (!is_own_policy(policy.spec.name)) return replay_here(policy, device, options);
  const Result<std::string> answer = replayed_apart(policy.spec, [&] {
    const SharedReplay result = replay_here(policy, device, options);
    const Figures figures{.peak_reserved = result.peak_reserved,
                          .beside_at_peak = result.beside_at_peak,
                          .failed_allocations = result.failed_allocations,
                          .peak_event = result.peak_event,
                          .unfinished = result.unfinished};
    return packed(result.heaps) + std::string(reinterpret_cast<const char*>(&figures), sizeof figures);
  });
  SharedReplay result;
  if (!answer) {
    result.heaps.resize(heaps_.size());
    for (ReplayResult& heap : result.heaps) heap.defect = answer.error();
    result.failed_allocations = 1;  // to the search for a least capacity
    return result;
  }
  std::string_view bytes = *answer;
  result.heaps = unpacked(bytes);
  for (ReplayResult& heap : result.heaps) heap.policy = policy.spec;
  Figures figures;
  std::memcpy(&figures, bytes.data(), sizeof figures);
  result.peak_reserved = figures.peak_reserved;
  result.peak_event = figures.peak_event;
  result.beside_at_peak = figures.beside_at_peak;
  result.failed_allocations = figures.failed_allocations;
  result.unfinished = figures.unfinished;
  return result;
}

SharedReplay SharedDevice::replay_here(const BoundPolicy& policy, const std::optional<DeviceModel>& device,
                                       const RunOptions& options) const {
  const std::optional<Bytes> capacity =
      device && device->kind == DeviceModel::Kind::capacity ? std::optional(device->capacity) : std::nullopt;
  // It sums up many rows at once, and would not notice a refusal.
  const bool refuses = policy.spec.name != "bound.live";
  SharedReplay result;
  result.heaps.resize(heaps_.size());
  std::vector<Use> uses(turns_.size());
  std::vector<Prepared> shells;
  for (const Prepared* heap : heaps_) shells.push_back(without_rows(*heap));
  for (int round = 0; round < most_rounds; ++round) {
    bool changed = false;
    for (std::uint32_t h = 0; h < heaps_.size(); ++h) {
      const std::vector<Use> before = uses;
      HeapTurns turns(*this, h, refuses ? capacity : std::nullopt, !refuses, held_by_others(h, uses), uses);
      RunOptions run = options;
      run.rows = &turns;
      run.backing = &turns;
      const DeviceModel model = device ? *device : implied_device(*heaps_[h]);
      if (refuses || !capacity) run.device = model;
      result.heaps[h] = policy.run(shells[h], run);
      result.heaps[h].policy = policy.spec;
      result.heaps[h].device_model = model;
      result.unfinished |= result.heaps[h].unfinished;
      changed |= before != uses;
    }
    if (!changed || !capacity || heaps_.size() == 1 || result.unfinished) break;
  }
  find_peak(uses, result);
  for (const ReplayResult& heap : result.heaps) result.failed_allocations += heap.failed_allocations;
  if (capacity && result.failed_allocations == 0) result.failed_allocations = times_over(*capacity, uses);
  return result;
}

std::optional<Bytes> SharedDevice::min_capacity(const BoundPolicy& policy,
                                                std::chrono::steady_clock::time_point deadline) const {
  const RunOptions to_failure{.stop_at_failure = true, .deadline = deadline};
  const SharedReplay free = replay(policy, DeviceModel{}, to_failure);
  if (free.failed_allocations > 0 || free.unfinished) return std::nullopt;
  return least_capacity({.unit = policy.unit, .peak_live = {}, .peak_reserved = free.peak_reserved},
                        [&](Bytes capacity) {
                          const DeviceModel limit{.kind = DeviceModel::Kind::capacity, .capacity = capacity};
                          return attempt_of(replay(policy, limit, to_failure));
                        });
}

}  // namespace memreel
