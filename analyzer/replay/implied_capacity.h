// How much memory the recorded program can have been allowed, judged by what the device said and by what was refused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"
#include "analyzer/policies/torch_settings.h"
#include "formats/model/event.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

/// What a trace knows of the memory that a heap could have.
struct CapacityBounds {
  Bytes least;                  // held at some time, so there was as much
  std::optional<Bytes> most;    // the largest capacity at which all that was refused is refused; none: nothing was
  std::optional<Bytes> device;  // what the device has in all, by its own account
  bool by_device = false;       // the device's account limits `most`, or would: not refusals alone
};

/// The bounds of one heap. A refusal shows as a failed request, or as segments released inside a request before it was
/// granted one: what was asked for did not fit beside what the heap held. Where the device said how much was free at a
/// refusal, that and what the heap held is all that it could have. Else the samples of the device bound it, and a
/// memory fraction that was set where the allocator reads its settings. When no single capacity explains everything
/// (others used the device too), the most that the heap ever held.
///
/// Segment sizes of failed requests follow torch.native where the heap is PyTorch's. The driver's heap holds its
/// allocations, any other its segments.
class ImpliedCapacity {
 public:
  ImpliedCapacity(Level level, bool is_torch) : level_(level), is_torch_(is_torch) {}

  /// The allocator's settings from here on.
  void set(const std::map<std::string, std::string>& settings);
  /// The next event of the heap, of any kind. `size` of a free: its allocation's. `value`: as in Event.
  void see(EventKind kind, Bytes size, std::uint64_t value);
  /// The device says what is used of it, and what is free.
  void sample(Bytes used, Bytes free);
  CapacityBounds bounds() const;

 private:
  /// Releases in one go. What they were for shows in what follows them.
  struct Burst {
    bool running = false;
    bool asked_for = false;  // by the program: empty_cache
    Bytes held_before;
  };

  void see_driver(EventKind kind, Bytes size, std::uint64_t value);
  void see_request_fail(Bytes needed, Bytes device_free);
  void refuse(Bytes total);
  void hold(Bytes size);

  Level level_;
  bool is_torch_;
  TorchSettings settings_;
  double fraction_ = 1;
  Bytes held_, most_held_;
  std::optional<Bytes> least_refused_;
  std::optional<Bytes> at_refusals_;  // held and free when something was refused: the least
  std::optional<Bytes> at_samples_;   // held and free when the device was asked: the most
  std::optional<Bytes> device_;
  Burst burst_;
};

/// The bounds of every heap of a trace, event by event: those of a trace in memory and of one that is streamed.
class ImpliedCapacities {
 public:
  /// `tables` may grow, and must outlive this.
  explicit ImpliedCapacities(const Tables& tables) : tables_(&tables) {}

  /// `heap`: that of the event; of a free, that of its allocation. `size` and `value` as for ImpliedCapacity.
  void see(EventKind kind, HeapId heap, const Origin& origin, Bytes size, std::uint64_t value);
  /// `most` only of PyTorch's heaps, and of a driver's whose device was sampled: other pools don't record how large
  /// they were.
  CapacityBounds bounds(HeapId heap) const;

 private:
  bool is_torch(HeapId heap) const;

  const Tables* tables_;
  std::vector<ImpliedCapacity> heaps_;
  std::vector<std::map<std::string, std::string>> settings_;  // by heap
};

/// The bounds of all heaps of a trace, by HeapId.
std::vector<CapacityBounds> capacity_bounds(const Trace& trace);

/// The device of a replay when nobody names another: with the implied capacity, which the program was told of, as a
/// memory fraction is; unlimited when nothing implies one.
DeviceModel implied_device(const Prepared& heap);

}  // namespace memreel
