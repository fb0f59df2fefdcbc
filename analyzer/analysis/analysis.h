// SPDX-License-Identifier: Apache-2.0
// What memreel finds in one recording, each thing once.
#pragma once

#include <functional>
#include <mutex>

#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/fragmentation.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "analyzer/analysis/insight/host_memory.h"
#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/analysis/insight/out_of_memory.h"
#include "analyzer/analysis/insight/pool_errors.h"
#include "analyzer/analysis/insight/private_pools.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/analysis/insight/rounds.h"
#include "analyzer/analysis/verdict.h"
#include "analyzer/replay/memory_summary.h"
#include "formats/model/trace.h"

namespace memreel {

/// A value computed on first use, by the thread that asks first; others wait for it.
template <class T>
class Once {
 public:
  const T& get(auto compute) const {
    std::call_once(flag_, [&] { value_.emplace(compute()); });
    return *value_;
  }
  /// The value, to change a part that nobody else reads yet. Only after get().
  T& value() const { return *value_; }
  /// The value if it was computed, else an empty one.
  T take() && { return value_ ? *std::move(value_) : T{}; }

 private:
  mutable std::once_flag flag_;
  mutable std::optional<T> value_;
};

/// Parts of an analysis that a question is about.
struct Sections {
  bool live = false;  // who held the memory
  bool leaks = false;
  bool fragmentation = false;
  bool ooms = false;

  static constexpr Sections all() { return {.live = true, .leaks = true, .fragmentation = true, .ooms = true}; }
  bool any() const { return live || leaks || fragmentation || ooms; }
};

struct AnalysisOptions {
  LeakOptions leaks;                           // their `capacity` is the devices', for failures and settings too
  std::shared_ptr<const Activity> activity{};  // find_activity() of the trace, where it is known
  /// Any thread may call it, after each replay of a setting.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_replay;
};

/// Everything derived from one trace that several answers share: the report, the viewer's findings, gates, ranks. Each
/// result is computed at most once, on first use, and is safe to ask for on any thread.
class Analysis {
 public:
  /// `trace` is complete (analyzer/replay/completed_trace.h), and outlives this.
  explicit Analysis(const Trace& trace, AnalysisOptions options = {}) : trace_(trace), options_(std::move(options)) {}

  /// Spares it classifying the allocations. `known` outlives this, and is set before anyone asks for what needs
  /// categories: verdicts do, none of their parts does.
  void set_categories(const Categories& known) { known_categories_ = &known; }

  const Trace& trace() const { return trace_; }
  const std::vector<Lifetime>& lives() const;
  const std::vector<HeapHistory>& histories() const;
  /// What each device holds, over all its heaps.
  const std::vector<DeviceMemory>& devices() const;
  const std::shared_ptr<const Activity>& activity() const;
  const Categories& categories() const;
  /// find_rounds(), where what the program does is followed once for all heaps.
  Rounds rounds(HeapId heap) const;
  /// The steps that the program marked for `heap`, however few; else those of rounds() that suffice, which are fewer
  /// than PyTorch's marks where optimizers take turns.
  Steps steps(HeapId heap) const;
  /// Where these end in `heap`, as Prepared::step_ends.
  std::vector<std::uint32_t> step_ends(const Prepared& heap) const;
  const RecordedBlocks& blocks() const;
  const LeakReport& leaks() const;
  const std::vector<Fragmentation>& fragmentation() const;
  const std::vector<HeapPools>& pools() const;
  /// None if the trace tells nothing of it.
  const std::optional<HostMemory>& host_memory() const;
  /// Errors in the use of the program's own pools.
  const std::vector<PoolError>& pool_errors() const;
  /// Of heaps whose allocator is PyTorch's; none for others.
  const std::vector<MemorySummary>& summaries() const;

  /// Why requests failed. Needs no replay: what would have served them is in survivors().
  const OutOfMemories& failures() const;
  /// What would have needed less. The one result that takes long.
  const Remedies& remedies() const;
  /// What a static plan of the peak's step would need; none if there is none.
  const std::optional<StepPlan>& step_plan() const;
  /// failures(), with what would have served each.
  const OutOfMemories& survivors() const;

  /// The verdict on these parts, without a setting: it needs no replay.
  Verdict first_verdict(Sections sections) const;
  /// The verdict on these parts; with a setting if they are about fragmentation or failures.
  Verdict verdict(Sections sections) const;

  /// The results to keep when the trace is no longer needed.
  struct Results {
    LeakReport leaks;
    std::vector<Fragmentation> fragmentation;
    std::vector<HeapPools> pools;
    Remedies remedies;
    OutOfMemories ooms;
  };
  Results take() &&;
  /// What first_verdict() is about, copied: `remedies` are empty.
  Results first_results() const;

 private:
  Verdict verdict(Sections sections, const OutOfMemories* ooms, const Remedies* remedies) const;
  const Remedies& untried() const;

  const Trace& trace_;
  const AnalysisOptions options_;
  const Categories* known_categories_ = nullptr;
  Once<std::vector<Lifetime>> lives_;
  Once<std::vector<HeapHistory>> histories_;
  Once<std::vector<DeviceMemory>> devices_;
  Once<std::shared_ptr<const Activity>> activity_;
  Once<Categories> categories_;
  Once<RoundsOfDevices> unmarked_rounds_;
  Once<RecordedBlocks> blocks_;
  Once<LeakReport> leaks_;
  Once<std::vector<Fragmentation>> fragmentation_;
  Once<std::vector<HeapPools>> pools_;
  Once<std::optional<HostMemory>> host_memory_;
  Once<std::vector<PoolError>> pool_errors_;
  Once<std::vector<MemorySummary>> summaries_;
  Once<Remedies> remedies_;  // replayed in place: they hold the requests of all heaps
  mutable std::once_flag replayed_;
  Once<std::optional<StepPlan>> step_plan_;
  Once<OutOfMemories> failures_, survivors_;
};

}  // namespace memreel
