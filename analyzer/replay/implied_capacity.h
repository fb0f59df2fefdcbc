// How much memory the recorded run can have been allowed, judged by what it was given and refused.
#pragma once

#include <optional>

#include "analyzer/policies/torch_settings.h"
#include "analyzer/replay/replay.h"
#include "formats/model/event.h"
#include "formats/model/units.h"

namespace memreel {

/// The largest capacity at which every recorded refusal is one: the segment that was asked for did not fit beside what
/// was reserved. A refusal shows as a failed request, or as segments released inside a request before it was granted
/// one. When no single capacity explains everything (others used the device too), the most that was ever reserved.
///
/// Segment sizes of failed requests follow torch.native.
class ImpliedCapacity {
 public:
  /// The allocator's settings from here on.
  void set(const TorchSettings& settings) { settings_ = settings; }
  /// The next event of the heap, of any kind.
  void see(EventKind kind, Bytes size);
  /// None when nothing was refused.
  std::optional<Bytes> result() const;

 private:
  /// Releases in one go. What they were for shows in what follows them.
  struct Burst {
    bool running = false;
    bool asked_for = false;  // by the program: empty_cache
    Bytes reserved_before;
  };

  void refuse(Bytes total);

  TorchSettings settings_;
  Bytes reserved_, most_reserved_;
  std::optional<Bytes> least_refused_;
  Burst burst_;
};

/// The device of a replay when nobody names another: with the implied capacity, which the program was told of, as a
/// memory fraction is; unlimited when nothing implies one.
DeviceModel implied_device(const Prepared& heap);

}  // namespace memreel
