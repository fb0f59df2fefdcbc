// Turns driver calls into records: what each call, its parameters and its result mean for memory.
#pragma once

#include <cstdint>

#include "collector/cuda/calls.h"
#include "collector/cuda/known_objects.h"
#include "collector/recorder/recorder.h"

namespace memreel::cuda {

/// A call as a backend sees it, at entry and again at exit.
struct CallSite {
  Call call;
  const void* parameters = nullptr;  // the call's structure in cuda::params
  KnownObjects::Known context;       // current in the calling thread
  bool captured = false;             // at exit: it became a graph node instead of being executed
};

/// Stateless; called on the thread that makes the call. A call that releases something is recorded at entry, before the
/// driver can give the same address or handle to another thread, and cancelled if it fails. A call that allocates is
/// recorded at exit.
class Decoder {
 public:
  explicit Decoder(agent::Recorder& recorder) : recorder_(&recorder) {}

  /// Returns the value to pass to exit() of the same call.
  std::uint64_t enter(const CallSite& site) const;
  void exit(const CallSite& site, Status status, std::uint64_t entered) const;

  void context_created(KnownObjects::Known context) const;
  /// Call when its destruction begins.
  void context_destroyed(KnownObjects::Known context) const;

 private:
  template <class Params>
  static const Params& of(const CallSite& site) {
    return *static_cast<const Params*>(site.parameters);
  }

  std::uint64_t taken(const CallSite& site, agent::Record&& record) const;
  void given(const CallSite& site, Status status, agent::Record&& record) const;
  void pointer_given(const CallSite& site, Status status, const DevicePointer* address, std::uint64_t size,
                     agent::Space space) const;
  void host_given(const CallSite& site, Status status, void* const* address, std::uint64_t size) const;
  void ordered_given(const CallSite& site, Status status, const DevicePointer* address, std::uint64_t size, Object pool,
                     Object stream) const;
  void import_given(const CallSite& site, Status status, const DevicePointer* address) const;
  void array_given(const CallSite& site, Status status, const Object* array, std::uint64_t size) const;
  void physical_given(const CallSite& site, Status status) const;
  void node_given(const CallSite& site, Status status, const GraphNode* node) const;
  void pool_found(const CallSite& site, Object pool, const Location& location, int allocation_type) const;
  void exit_of_others(const CallSite& site, Status status) const;
  void note(const CallSite& site, Status status, agent::Record&& record) const;

  agent::Recorder* recorder_;
};

}  // namespace memreel::cuda
