// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/synthesize.h"

#include <algorithm>
#include <array>
#include <limits>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/torch_rules.h"

namespace memreel {
namespace {

constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

class Synthesis {
 public:
  Synthesis(const Model& model, std::span<const std::uint64_t> values, const Assumption& assumption)
      : model_(model),
        base_(*model.base),
        events_(base_.trace.events),
        rows_(base_.requests.rows),
        values_(values),
        target_(model.target(values_)),
        assumption_(assumption) {}

  PredictedRun run() {
    predicted_run_.heap = base_.heap;
    predicted_run_.segments = base_.segments;
    trace_.header = base_.trace.header;
    trace_.header.source = synthetic_source;
    trace_.tables = base_.trace.tables;
    trace_.losses = base_.trace.losses;
    prepare();
    auto repeat = model_.repeats.begin();
    for (std::uint32_t event = 0; event < events_.count(); ++event) {
      if (repeat != model_.repeats.end() && event == rows_[repeat->unit].event)
        event = write_repeat(*repeat++);
      else
        write(event, {});
    }
    return std::move(predicted_run_);
  }

 private:
  enum class State : std::uint8_t { absent, live, awaiting };
  struct Copy {
    AllocationId id = AllocationId::none;
    State state = State::absent;
  };

  void prepare() {
    row_of_.assign(base_.trace.events.allocation_count(), nothing);
    for (std::uint32_t row = 0; row < rows_.size(); ++row) row_of_[index(events_.allocation(rows_[row].event))] = row;
    copies_of_.assign(rows_.size(), 0);
    absent_.assign(rows_.size(), false);
    for (const Repeat& repeat : model_.repeats) {
      const std::int64_t periods = repeat.periods(values_, base_.at);
      if (periods >= 0) {
        std::fill_n(copies_of_.begin() + repeat.unit, repeat.period, static_cast<std::uint32_t>(periods));
      } else {
        const auto fewer = std::min<std::uint64_t>(static_cast<std::uint64_t>(-periods) * repeat.period, repeat.count);
        std::fill_n(absent_.begin() + (repeat.first + repeat.count - static_cast<std::uint32_t>(fewer)), fewer, true);
      }
    }
    // States of the original and of each copy, consecutively.
    first_copy_.reserve(rows_.size() + 1);
    std::size_t total = 0;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      first_copy_.push_back(total);
      total += 1 + copies_of_[row];
    }
    first_copy_.push_back(total);
    state_.resize(total);
    kernels_.resize(rows_.size());
    if (model_.recorded_at(values_) && model_.predicted_for == model_.recorded_on) {
      for (const RecordedKernel& kernel : base_.requests.kernels) kernels_[kernel.row] = requests_of(kernel);
    } else {
      for (const KernelRule& kernel : model_.kernels)
        kernels_[kernel.row] = model_.requests_of(kernel, values_, model_.predicted_for);
    }
    find_neighbours();
  }

  /// What a round of a loop keeps may be freed in the round before or after the one that frees the rest of it, as the
  /// input of a layer. The unit that frees the rest then also frees the corresponding allocation of a neighbour.
  struct Neighbour {
    std::uint32_t row = nothing;     // in the unit of `repeat`: what the neighbour corresponds to
    const Repeat* repeat = nullptr;  // null: none
    bool earlier = false;            // the neighbour precedes the unit
  };

  void find_neighbours() {
    neighbour_.resize(rows_.size());
    freed_with_neighbour_.resize(rows_.size());
    std::vector<std::uint32_t> freed(rows_.size(), nothing);  // events
    for (std::uint32_t event = 0; event < events_.count(); ++event) {
      if (!is_free(events_.kind(event)) || events_.allocation(event) == AllocationId::none) continue;
      const std::uint32_t row = row_of_[index(events_.allocation(event))];
      if (row != nothing) freed[row] = std::min(freed[row], event);
    }
    const auto in_unit = [&](std::uint32_t event, const Repeat& freeing) {
      return event != nothing && event >= rows_[freeing.unit].event && event < end_of(freeing);
    };
    const auto find = [&](const Repeat& repeat, std::uint32_t row, std::uint32_t other) {
      if (other >= rows_.size() || copies_of_[other] > 0 || rows_[other].site != rows_[row].site) return false;
      const bool found = std::ranges::any_of(model_.repeats, [&](const Repeat& freeing) {
        return &freeing != &repeat && copies_of_[freeing.unit] == copies_of_[repeat.unit] &&
               in_unit(freed[other], freeing);
      });
      if (!found) return false;
      const Neighbour neighbour{.row = row, .repeat = &repeat, .earlier = other < row};
      neighbour_[other] = freed_with_neighbour_[row] = neighbour;
      return true;
    };
    for (const Repeat& repeat : model_.repeats) {
      if (copies_of_[repeat.unit] == 0) continue;
      for (std::uint32_t row = repeat.unit; row < repeat.unit + repeat.period; ++row) {
        const bool with_the_rest =
            std::ranges::any_of(model_.repeats, [&](const Repeat& freeing) { return in_unit(freed[row], freeing); });
        if (freed[row] == nothing || with_the_rest) continue;
        if (row < repeat.period || !find(repeat, row, row - repeat.period)) find(repeat, row, row + repeat.period);
      }
    }
  }

  /// The copy (0: the original) at a position in time among those of a repeat, and the inverse.
  static std::uint32_t in_time(const Repeat& repeat, std::uint32_t copies, std::uint32_t place) {
    return repeat.backwards ? copies - place : place;
  }

  /// The part of a repeat being written; none: outside of all repeats.
  struct Part {
    const Repeat* repeat = nullptr;
    std::uint32_t copy = 0;          // 0: the original
    std::uint32_t before = nothing;  // the copy written before it
  };

  /// The event after the last one of a repeat's unit.
  std::uint32_t end_of(const Repeat& repeat) const {
    const std::uint32_t row = repeat.unit + repeat.period;
    const std::uint32_t next = row < rows_.size() ? rows_[row].event : static_cast<std::uint32_t>(events_.count());
    // A mark ends it: what follows belongs to another step.
    for (std::uint32_t event = rows_[row - 1].event + 1; event < next; ++event)
      if (events_.kind(event) == EventKind::mark) return event;
    return next;
  }

  /// Returns the last event written.
  std::uint32_t write_repeat(const Repeat& repeat) {
    const std::uint32_t begin = rows_[repeat.unit].event, end = end_of(repeat);
    const std::uint32_t copies = copies_of_[repeat.unit];
    Part part{.repeat = &repeat};
    for (std::uint32_t i = 0; i <= copies; ++i) {
      part.copy = repeat.backwards ? copies - i : i;
      for (std::uint32_t event = begin; event < end; ++event) write(event, part);
      part.before = part.copy;
    }
    return end - 1;
  }

  void write(std::uint32_t at, const Part& part) {
    // What changes beside the heap does so once, however many copies of the events around it there are.
    for (; next_beside_ < base_.beside.size() && base_.beside[next_beside_].event <= at; ++next_beside_) {
      predicted_run_.beside.push_back(
          {.event = static_cast<std::uint32_t>(trace_.events.count()), .held = base_.beside[next_beside_].held});
    }
    const EventKind kind = events_.kind(at);
    if (is_segment(kind) || kind == EventKind::memory_info || kind == EventKind::alloc_failed) return;
    const HeapId heap = base_.trace.tables[events_.origin(at)].heap;
    if (heap != HeapId::none && heap != base_.heap && kind != EventKind::mark) return;
    if (kind == EventKind::alloc) return write_alloc(at, part.copy);
    if (is_free(kind)) return write_free(at, part);
    if (part.copy == 0) trace_.events.push_back(events_[at]);
  }

  void write_alloc(std::uint32_t at, std::uint32_t copy) {
    const std::uint32_t row = row_of_[index(events_.allocation(at))];
    if (row == nothing || absent_[row]) return;
    const Bytes size = model_.size_of(row, copy, target_, assumption_);
    const PredictedRun::Source source{.row = row, .copy = copy};
    std::vector<Scratch> scratch;
    std::uint32_t asked = 0;
    for (const KernelRequest& more : kernels_[row].before) write_scratch(at, more, source, asked++, scratch);
    state_[first_copy_[row] + copy] = {.id = request(at, size, source), .state = State::live};
    ++asked;
    for (const KernelRequest& more : kernels_[row].after) write_scratch(at, more, source, asked++, scratch);
  }

  /// What a kernel requested in addition to its result, and the last of its requests before that is freed.
  struct Scratch {
    AllocationId id = AllocationId::none;
    std::uint32_t last = 0;
  };

  /// `asked`: the number of requests the kernel made before. Frees what is no longer needed, newest first.
  void write_scratch(std::uint32_t at, const KernelRequest& more, PredictedRun::Source source, std::uint32_t asked,
                     std::vector<Scratch>& scratch) {
    source.scratch = more.size;
    scratch.push_back({request(at, more.size, source), asked + more.lifetime});
    for (auto newest = scratch.rbegin(); newest != scratch.rend(); ++newest)
      if (newest->last == asked)
        for (const EventKind kind : {EventKind::free_requested, EventKind::free_completed})
          release(events_[at], kind, newest->id);
  }

  AllocationId request(std::uint32_t at, Bytes size, const PredictedRun::Source& source) {
    Event event = events_[at];
    event.size = size;
    event.address = next_address_;
    next_address_ = next_address_ + round_up(event.size + 1_B, 512_B);
    event.allocation = AllocationId{static_cast<std::uint32_t>(trace_.events.allocation_count())};
    trace_.events.push_back(event);
    predicted_run_.sources.push_back(source);
    return event.allocation;
  }

  void release(Event event, EventKind kind, AllocationId allocation) {
    event.kind = kind;
    event.allocation = allocation;
    trace_.events.push_back(event);
  }

  void write_free(std::uint32_t at, const Part& part) {
    const AllocationId allocation = events_.allocation(at);
    const std::uint32_t row = allocation == AllocationId::none ? nothing : row_of_[index(allocation)];
    if (row == nothing) return;
    const bool copied = copies_of_[row] > 0;
    if (const Neighbour& of = neighbour_[row]; part.repeat != nullptr && of.repeat != nullptr) {
      const std::uint32_t copies = copies_of_[of.row], place = in_time(*of.repeat, copies, part.copy);
      if (place == (of.earlier ? 0 : copies)) return free(at, state_[first_copy_[row]]);
      return free(at, state_[first_copy_[of.row] + in_time(*of.repeat, copies, of.earlier ? place - 1 : place + 1)]);
    }
    if (const Neighbour& of = freed_with_neighbour_[row]; part.repeat == nullptr && of.repeat != nullptr) {
      const std::uint32_t copies = copies_of_[row];
      return free(at, state_[first_copy_[row] + in_time(*of.repeat, copies, of.earlier ? copies : 0)]);
    }
    if (part.repeat == nullptr || (!copied && part.before == nothing)) {  // whatever is left of it
      for (std::size_t c = first_copy_[row]; c < first_copy_[row + 1]; ++c) free(at, state_[c]);
    } else if (copied) {
      if (part.copy <= copies_of_[row]) free(at, state_[first_copy_[row] + part.copy]);
    } else {
      const std::uint32_t later = row + part.repeat->period;  // the corresponding row of the unit
      if (row < part.repeat->unit && later >= part.repeat->unit && copies_of_[later] > 0)
        free(at, state_[first_copy_[later] + part.before]);
    }
  }

  void free(std::uint32_t at, Copy& copy) {
    const bool requested = events_.kind(at) == EventKind::free_requested;
    if (copy.state != (requested ? State::live : State::awaiting)) return;
    copy.state = requested ? State::awaiting : State::absent;
    release(events_[at], events_.kind(at), copy.id);
  }

  const Model& model_;
  const Recording& base_;
  const Events& events_;
  const std::vector<Request>& rows_;
  std::span<const std::uint64_t> values_;
  Target target_;
  const Assumption& assumption_;
  PredictedRun predicted_run_;
  Trace& trace_ = predicted_run_.trace;
  std::vector<std::uint32_t> row_of_;            // by allocation of the base
  std::vector<std::uint32_t> copies_of_;         // by row; 0 outside of repeats' units
  std::vector<bool> absent_;                     // by row: a smaller program lacks this request
  std::vector<KernelRequests> kernels_;          // by row
  std::vector<std::size_t> first_copy_;          // by row, in state_
  std::vector<Neighbour> neighbour_;             // by row outside of units: the allocation freed in one, instead of it
  std::vector<Neighbour> freed_with_neighbour_;  // by row of a unit: its other copies are
  std::vector<Copy> state_;
  std::size_t next_beside_ = 0;  // of base_.beside
  Address next_address_{std::uint64_t{1} << 40U};
};

}  // namespace

PredictedRun synthesize(const Model& model, std::span<const std::uint64_t> values, const Assumption& assumption) {
  return Synthesis(model, values, assumption).run();
}

namespace {

/// A device without limit that records the calls it gets.
class NotingDevice final : public Device {
 public:
  explicit NotingDevice(std::span<const RecordedSegment> recorded) : device_(DeviceModel{}, recorded) {}

  struct Call {
    EventKind kind = EventKind::unknown;
    Address address;
    Bytes size;
  };

  std::optional<Address> reserve(Bytes size) override {
    const std::optional<Address> address = device_.reserve(size);
    if (address) calls.push_back({EventKind::segment_alloc, *address, size});
    return address;
  }
  void release(Address address, Bytes size) override {
    device_.release(address, size);
    calls.push_back({EventKind::segment_free, address, size});
  }
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override {
    return device_.reserve_addresses(least, unit);
  }
  bool map(Address address, Bytes size) override {
    if (!device_.map(address, size)) return false;
    calls.push_back({EventKind::segment_map, address, size});
    return true;
  }
  void unmap(Address address, Bytes size) override {
    device_.unmap(address, size);
    calls.push_back({EventKind::segment_unmap, address, size});
  }
  std::optional<Bytes> capacity() const override { return std::nullopt; }

  std::vector<Call> calls;  // since they were last taken

 private:
  SimulatedDevice device_;
};

/// Executes a row of a heap; returns true for a request.
bool perform(const Prepared& heap, std::size_t row, auto& policy) {
  const std::uint32_t slot = heap.slot[row];
  switch (heap.op[row]) {
    case Op::alloc:
      policy.allocate(slot, heap.size[row], heap.pool_stream[row]);
      return true;
    case Op::free:
      policy.free(slot, heap.size[row]);
      break;
    case Op::free_requested:
      policy.free_requested(slot, heap.size[row]);
      break;
    case Op::free_completed:
      policy.free_completed(slot, heap.size[row]);
      break;
    case Op::empty_cache:
      policy.empty_cache();
      break;
    case Op::empty_pool:
      policy.empty_pool(heap.pool_stream[row]);
      break;
    case Op::pool_ended:
      policy.pool_ended(heap.pool_stream[row]);
      break;
    default:
      break;
  }
  return false;
}

}  // namespace

void place(PredictedRun& predicted_run, const TorchSettings& settings) {
  const std::vector<Prepared> heaps = prepare(predicted_run.trace);
  const auto heap = std::ranges::find(heaps, predicted_run.heap, &Prepared::heap);
  if (heap == heaps.end()) return;
  Events& events = predicted_run.trace.events;
  NotingDevice device(predicted_run.segments);
  std::vector<std::pair<std::uint32_t, Event>> segments;  // and the events that they precede
  with_torch(*heap, settings, device, [&](auto& policy, auto real) {
    for (std::size_t row = 0; row < heap->count(); ++row) {
      const std::uint32_t at = heap->event[row];
      if (perform(*heap, row, policy))
        events.set_address(events.allocation(at), real(policy.extent_of(heap->slot[row]).address));
      for (const NotingDevice::Call& call : std::exchange(device.calls, {}))
        segments.push_back({at,
                            {.kind = call.kind,
                             .origin = events.origin(at),
                             .stack = events.stack(at),
                             .time = events.time(at),
                             .address = call.address,
                             .size = call.size}});
    }
  });
  Events placed;
  auto segment = segments.begin();
  auto beside = predicted_run.beside.begin();
  for (std::uint32_t at = 0; at < events.count(); ++at) {
    for (; beside != predicted_run.beside.end() && beside->event == at; ++beside)
      beside->event = static_cast<std::uint32_t>(placed.count());
    for (; segment != segments.end() && segment->first == at; ++segment) placed.push_back(segment->second);
    placed.push_back(events[at]);
  }
  for (; beside != predicted_run.beside.end(); ++beside) beside->event = static_cast<std::uint32_t>(placed.count());
  placed.pack();
  events = std::move(placed);
}

ReplayedPrediction::ReplayedPrediction(const Model& model, std::span<const std::uint64_t> at)
    : model_(model),
      at_(at.begin(), at.end()),
      target_(model.target(at_)),
      predicted_run_(synthesize(model, at)),
      heaps_(prepare(predicted_run_.trace)) {
  std::erase_if(heaps_, [&](const Prepared& heap) { return heap.heap != predicted_run_.heap; });
  begin_with(model.base->segments);
}

void ReplayedPrediction::begin_with(const std::vector<RecordedSegment>& segments) {
  if (!heaps_.empty()) heaps_.front().segments = segments;
}

void number_from_one(std::span<Prepared> heaps) {
  for (Prepared& heap : heaps)
    for (std::uint32_t& event : heap.event) ++event;
}

void ReplayedPrediction::set_sizes(const Assumption& assumption) {
  Prepared& heap = heaps_.front();
  std::vector<Bytes> sizes;
  sizes.reserve(predicted_run_.sources.size());
  for (const PredictedRun::Source& source : predicted_run_.sources)
    sizes.push_back(source.scratch ? *source.scratch : model_.size_of(source.row, source.copy, target_, assumption));
  for (std::size_t row = 0; row < heap.count(); ++row) {
    const AllocationId allocation = predicted_run_.trace.events.allocation(heap.event[row]);
    if (allocation != AllocationId::none) heap.size[row] = sizes[index(allocation)];
  }
}

DeviceReplay ReplayedPrediction::replay_with_others(const PolicySpec& policy, const DeviceModel& device,
                                                    const Assumption& assumption) {
  if (heaps_.empty()) return {};
  set_sizes(assumption);
  const std::array specs{policy};
  const ReplayOptions options{.device = device, .series_points = 1, .threads = 1};
  const auto on_device = [&](const Surroundings& around) {
    Result<std::vector<DeviceReplay>> results = replay_devices(heaps_, specs, options, around);
    return results && !results->empty() ? std::move(results->front()) : DeviceReplay{};
  };
  if (predicted_run_.beside.empty()) return on_device({});
  const std::vector<std::uint32_t> events = heaps_.front().event;
  number_from_one(heaps_);
  DeviceReplay result = on_device({.beside = {{heaps_.front().device, predicted_run_.beside}}, .inside = {}});
  heaps_.front().event = events;
  if (result.peak_event > 0) --result.peak_event;
  for (ReplayResult& heap : result.heaps)
    if (heap.first_failure) --heap.first_failure->event;
  return result;
}

ReplayResult ReplayedPrediction::replay(const PolicySpec& policy, const DeviceModel& device,
                                        const Assumption& assumption, Deadline deadline) {
  if (heaps_.empty()) return {};
  set_sizes(assumption);
  const std::array specs{policy};
  Result<std::vector<ReplayResult>> results =
      memreel::replay(heaps_, specs, {.device = device, .series_points = 1, .threads = 1, .deadline = deadline});
  return results && !results->empty() ? std::move(results->front()) : ReplayResult{};
}

}  // namespace memreel
