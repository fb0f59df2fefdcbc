// SPDX-License-Identifier: Apache-2.0
// Turns driver calls into records: what each call, its parameters and its result mean for memory.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "collector/cuda/calls.h"
#include "collector/recorder/recorder.h"

namespace memreel::cuda {

// The size of a CUDA array. The driver does not report it; this is what its elements need, without device padding.

std::uint64_t array_size(const ArrayDescriptor& descriptor);
/// Of all mipmap levels: each has half the width, height and depth of the previous one.
std::uint64_t array_size(const Array3dDescriptor& descriptor, unsigned levels = 1);

// What the entry of a driver call stores for its exit. CUPTI has 8 bytes for that in each call, but only one such slot:
// when CUPTI is shared, another subscriber may write there.

/// For one thread, which may be in nested calls. All-zero bytes are the initial state.
class EnteredCalls {
 public:
  /// The call with this number begins. If calls nest deeper than there is room for, the outermost are forgotten; so are
  /// those whose exit never comes.
  constexpr void put(std::uint32_t call, std::uint64_t value) {
    if (value == 0) return;
    if (count_ == entries_.size()) {
      std::move(entries_.begin() + 1, entries_.end(), entries_.begin());
      --count_;
    }
    entries_[count_++] = {.call = call, .value = value};
  }

  /// The call ends, and with it all calls nested in it. Returns the value stored at its entry, else 0.
  constexpr std::uint64_t take(std::uint32_t call) {
    for (std::size_t i = count_; i-- > 0;) {
      if (entries_[i].call != call) continue;
      count_ = i;
      return entries_[i].value;
    }
    return 0;
  }

 private:
  struct Entry {
    std::uint32_t call;
    std::uint64_t value;
  };

  std::array<Entry, 4> entries_{};
  std::size_t count_ = 0;
};

// The CUDA contexts, or memory pools, seen so far: the device of each, and a small number for each.

/// Any thread may look up and add at any time, without locks. An object created at an earlier one's address gets a new
/// number; later ones get those of objects that are gone.
class KnownObjects {
 public:
  struct Known {
    std::uint16_t number = 0;  // 0: unknown
    std::int16_t device = 0;

    friend bool operator==(const Known&, const Known&) = default;
  };

  Known find(const void* object) const;
  /// The number is 0 if there is no room. Adding a known object again changes nothing.
  Known add(const void* object, std::int16_t device);
  /// Like add(), but an earlier object may have been known at this address.
  void put(const void* object, std::int16_t device);
  /// Whether objects were ever on more than one device.
  bool on_several_devices() const {
    const std::uint64_t devices = devices_.load(std::memory_order_relaxed);
    return (devices & (devices - 1)) != 0;
  }
  /// The object with this number is gone.
  void remove(std::uint16_t number);

  /// Calls visit(const void* object, std::int16_t device) for each current object.
  void for_each(auto&& visit) const {
    for (std::size_t i = 1; i < count(); ++i)
      if (const void* const object = entries_[i].object.load(std::memory_order_acquire);
          object != nullptr && object != this)
        visit(object, entries_[i].device.load(std::memory_order_relaxed));
  }

 private:
  struct Entry {
    std::atomic<const void*> object = nullptr;  // this table: a thread is adding one here
    std::atomic<std::int16_t> device = 0;
  };

  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  const void* settled(const Entry& entry) const;

  std::array<Entry, 1024> entries_;         // the first is unused
  std::atomic<std::uint16_t> count_ = 8;    // of entries in use; doubles when none is free
  std::atomic<std::uint16_t> latest_ = 0;   // where the latest object was added
  std::atomic<std::uint64_t> devices_ = 0;  // one bit per device
};

/// A call as a backend sees it, at entry and again at exit.
struct CallSite {
  Call call;
  const void* parameters = nullptr;  // Parameters<call>
  KnownObjects::Known context;       // current in the calling thread
  bool captured = false;             // at exit: it became a graph node instead of being executed
};

/// The site's arguments, if it is of this call or another with the same ones.
template <Call call>
const Parameters<call>& of(const CallSite& site) {
  return *static_cast<const Parameters<call>*>(site.parameters);
}

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
