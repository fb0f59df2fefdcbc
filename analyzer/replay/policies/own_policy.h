// SPDX-License-Identifier: Apache-2.0
// A user-defined policy: a shared library that implements the C header analyzer/include/memreel/policy.h.
//
// Checks every answer of the library against what memreel itself knows (segments, allocations, their extents). The
// first wrong answer is kept as the run's defect; the library is not called again, and every request fails from then
// on. The library is loaded and replayed in a process of its own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <span>

#include "analyzer/include/memreel/policy.h"
#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "formats/model/result.h"

namespace memreel {

// Runs the code of others in a process of its own: whatever it does there is one line here.

/// How far the process is: written there, read here.
struct OwnProgress {
  std::atomic<std::uint64_t> requests = 0;  // made so far, for messages
  std::atomic<std::uint64_t> calls = 0;     // that were answered
};

/// Calls `work` in a forked process and returns its result. What that process prints goes to standard error. Errors: it
/// was ended by a signal, ended itself, or answered no call for `patience`. Throws std::bad_alloc if it ran out of
/// memory. Any thread; `work` must take no lock that another thread may hold.
Result<std::string> in_own_process(const std::function<std::string(OwnProgress&)>& work,
                                   std::chrono::milliseconds patience);

class OwnPolicy {
 public:
  /// `rules` must be complete and, like `device` and `progress`, outlive the policy.
  OwnPolicy(const Prepared& heap, const memreel_policy& rules, const std::map<std::string, std::string>& parameters,
            SimulatedDevice& device, OwnProgress* progress = nullptr);
  OwnPolicy(const OwnPolicy&) = delete;
  OwnPolicy& operator=(const OwnPolicy&) = delete;
  ~OwnPolicy();

  bool allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream);
  void free(std::uint32_t slot, Bytes requested) {
    free_requested(slot, requested);
    free_completed(slot, requested);
  }
  void free_requested(std::uint32_t slot, Bytes requested);
  void free_completed(std::uint32_t slot, Bytes requested);
  void empty_cache();
  void device_synchronized();
  void stream_synchronized(std::uint32_t pool_stream);
  void stream_waits(std::uint32_t pool_stream, std::uint32_t awaited);

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return largest_free_; }
  const DriverCalls& driver_calls() const { return calls_; }
  Extent extent_of(std::uint32_t slot) const { return extent_of_[slot]; }
  /// The gaps between allocations. Their sum is what the library calls free, unless it never uses some of it.
  void for_each_free(auto&& visit) const {
    for (const auto& [begin, segment] : segments_) {
      Address from = begin;
      const Address end = begin + segment.size;
      for (auto at = extents_.lower_bound(begin); at != extents_.end() && at->first < end; ++at) {
        if (at->first > from) visit(FreeBlock{.size = at->first - from});
        from = at->first + at->second;
      }
      if (end > from) visit(FreeBlock{.size = end - from});
    }
  }

  /// What the library answered wrongly, if anything.
  const std::optional<std::string>& defect() const { return defect_; }

 private:
  struct Segment {
    Bytes size;
    std::uint32_t allocations = 0;  // that lie in it, including those awaiting free
  };

  static int reserve(memreel_device* device, std::uint64_t size, std::uint64_t* address);
  static void release(memreel_device* device, std::uint64_t address);
  static OwnPolicy& of(memreel_device* device);

  bool works() const { return instance_ != nullptr && !defect_; }
  void blame(const std::string& what);
  /// Enters the extent that the library gave for an allocation. Returns false if it is impossible.
  bool place(std::uint32_t slot, Bytes requested, Extent extent);
  void after_operation();

  const memreel_policy& rules_;
  SimulatedDevice& device_;
  HeapUse use_;
  Bytes pending_, largest_free_;
  DriverCalls calls_;
  std::vector<memreel_pool_stream> pool_streams_;
  memreel_environment environment_{};
  void* instance_ = nullptr;
  std::uint64_t requests_ = 0;
  OwnProgress* progress_;
  std::vector<Extent> extent_of_;     // by slot
  std::map<Address, Bytes> extents_;  // allocated and awaiting free
  std::map<Address, Segment> segments_;
  std::optional<std::string> defect_;
};

/// Whether a policy name denotes a shared library: it contains a slash or ends in ".so".
bool is_own_policy(std::string_view name);

// Replays of several heaps at a time, which are one piece of work: what it changes is lost, but for its answer.

/// Calls `work`, which replays the policy, in a process of its own. Errors: what that process did instead, with the
/// policy as the place.
Result<std::string> replayed_apart(const PolicySpec& spec, const std::function<std::string()>& work);

/// Results on their way from there, without their policies, and back. The same program writes and reads them.
std::string packed(std::span<const ReplayResult> results);
/// Takes the results off the beginning of `bytes`.
std::vector<ReplayResult> unpacked(std::string_view& bytes);

/// Loads the library that `spec` names. Errors: it can't be loaded, or does not conform to the header.
Result<BoundPolicy> bind_own_policy(const PolicySpec& spec);

}  // namespace memreel
