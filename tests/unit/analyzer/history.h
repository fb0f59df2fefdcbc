// SPDX-License-Identifier: Apache-2.0
// The history of one framework heap, written call by call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "analyzer/replay/prepare.h"
#include "tests/unit/sample_trace.h"

namespace memreel::testing {

inline constexpr Address base{0x10000000};  // of the first segment, unless a test needs another

/// A TraceBuilder for one PyTorch heap whose events default to the first stream and pool.
class History {
 public:
  AllocationId alloc(Bytes size, Address address = {}, std::uint64_t stream = 0, std::uint32_t pool = 0) {
    return builder_.alloc(origin(stream, pool), address, size);
  }
  void free_requested(AllocationId id) { builder_.free_requested(id); }
  void free_completed(AllocationId id) { builder_.free_completed(id); }
  void free(AllocationId id) { builder_.free(id); }
  void failed(Bytes size) { builder_.event(EventKind::alloc_failed, origin(0, 0), {}, size); }
  void empty_cache(std::uint32_t pool = 0) { builder_.event(EventKind::empty_cache, origin(0, pool), {}, {}); }
  void pool_end(std::uint32_t pool) { builder_.event(EventKind::pool_end, origin(0, pool), {}, {}); }
  /// `how`: see EventKind::sync.
  void synchronized(std::uint64_t stream, std::uint64_t how) {
    builder_.push({.kind = EventKind::sync, .origin = origin(stream, 0), .value = how});
  }
  StreamId stream(std::uint64_t handle) { return trace().tables[origin(handle, 0)].stream; }
  void segment_alloc(Address address, Bytes size, std::uint32_t pool = 0) {
    builder_.event(EventKind::segment_alloc, origin(0, pool), address, size);
  }
  void segment_free(Address address, Bytes size, std::uint32_t pool = 0) {
    builder_.event(EventKind::segment_free, origin(0, pool), address, size);
  }
  void settings(const std::map<std::string, std::string>& values) {
    Settings settings;
    for (const auto& [key, value] : values) settings.entries.emplace_back(builder_.string(key), builder_.string(value));
    trace().tables.settings.push_back(std::move(settings));
    builder_.push({.kind = EventKind::settings, .origin = origin(0, 0), .value = trace().tables.settings.size() - 1});
  }

  Trace& trace() { return builder_.trace(); }
  /// A history in which the heap was used.
  Prepared prepared() { return prepare(trace()).at(0); }

 private:
  OriginId origin(std::uint64_t stream, std::uint32_t pool) {
    const auto [found, is_new] = origins_.try_emplace({stream, pool});
    if (is_new) {
      auto& pools = trace().tables.pools;
      while (pools.size() <= pool) pools.push_back({.key_low = pools.size()});
      found->second = builder_.origin(HeapId{1}, stream, PoolId{pool});
    }
    return found->second;
  }

  TraceBuilder builder_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, OriginId> origins_;
};

}  // namespace memreel::testing
