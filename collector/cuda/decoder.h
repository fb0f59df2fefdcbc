// From calls of the driver to records: what each call, its parameters and its result say about memory.
#pragma once

#include <cstdint>

#include "collector/cuda/calls.h"
#include "collector/cuda/known_objects.h"
#include "collector/recorder/recorder.h"

namespace memreel::cuda {

/// A call as a backend sees it, at its beginning and again at its end.
struct CallSite {
  Call call;
  const void* parameters = nullptr;  // the call's structure in cuda::params
  KnownObjects::Known context;       // current in the calling thread
  bool captured = false;             // at its end: it became a node of a graph instead of being done
};

/// Stateless; called by the thread that makes the call. What takes something away is recorded when the call begins,
/// before the driver can give the same address or handle to another thread, and cancelled when the call fails. What
/// gives something is recorded when the call ends.
class Decoder {
 public:
  explicit Decoder(agent::Recorder& recorder) : recorder_(&recorder) {}

  /// Returns what exit() of the same call has to be given.
  std::uint64_t enter(const CallSite& site) const;
  void exit(const CallSite& site, Status status, std::uint64_t entered) const;

  void context_created(KnownObjects::Known context) const;
  /// To be told when its destruction begins.
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
