// SPDX-License-Identifier: Apache-2.0
// Puts a trace together in memory: what load() would return of the file that a TraceWriter makes of the same calls,
// without that file.
#pragma once

#include "formats/model/flat_map.h"
#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel {

/// The first failure is kept: later calls do nothing and finish() returns it.
class TraceInMemory final : public ImportOutput {
 public:
  /// Errors: events and tables need more than `memory_limit`; they name the file `name`.
  TraceInMemory(const Header& header, std::string name, Bytes memory_limit);

  AllocationId append(const Event& event) override;
  AllocationId live_at(HeapId heap, Address address) const override {
    return AllocationId{by_place_.find({address, heap})};
  }
  /// Goes through all events.
  HeapState state_of(HeapId heap) const override;
  void add_initial_heap(InitialHeap initial) override;
  void set_losses(const Losses& losses) override { losses_ = losses; }
  void set_python_holders(PythonHolders holders) override;
  Result<void> flush() override { return status_; }
  Result<void> finish() override;

  /// Once finish() has succeeded. Trace::file_size is 0.
  Trace take() && { return std::move(trace_); }

 private:
  /// Which allocation a free ends.
  void match(Event& free);

  std::string name_;
  Bytes memory_limit_;
  Result<void> status_;  // the first failure
  Trace trace_;          // its tables come last
  Losses losses_;        // as stated
  std::uint64_t unmatched_frees_ = 0;
  FlatMap<HeapAddress, HeapAddressHash> by_place_;  // allocations that are not completed
};

}  // namespace memreel
