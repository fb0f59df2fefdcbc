// SPDX-License-Identifier: Apache-2.0
// What the analyzer finds in a trace: categories and layers of allocations; leaks, fragmentation, failed requests, and
// their summary.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/device_tree.h"
#include "analyzer/analysis/insight/fragmentation.h"
#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/analysis/insight/out_of_memory.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/describe/live_groups.h"
#include "formats/model/python_holders.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/whole_trace.h"

namespace memreel::viewer {

class Sieve;

/// Covers the allocations and stacks that existed when it was made; later ones are unknown. Memory: two bytes for each
/// allocation, and a few for each stack.
struct Classification {
  std::shared_ptr<const Categories> categories = std::make_shared<const Categories>();  // never null
  bool knows_any = false;  // whether any allocation is other than `unknown`
  bool knows_layers = false;
  std::string problem;  // why nothing is known; empty: no problem

  /// The number of allocations it covers.
  std::uint32_t count() const { return static_cast<std::uint32_t>(categories->evidence.size()); }
  Evidence evidence(std::uint32_t allocation) const {
    return allocation < count() ? categories->evidence[allocation] : Evidence::none;
  }
  Category category(std::uint32_t allocation) const { return category_of(evidence(allocation)); }
  Phase phase(std::uint32_t allocation) const {
    return allocation < categories->phase.size() ? categories->phase[allocation] : Phase::other;
  }
  /// How many times the layer's line had run when the allocation was made (analyzer/analysis/category/observations.h).
  std::uint16_t call(std::uint32_t allocation) const { return categories->calls.of(allocation); }
  /// The path of the layer, or the innermost part if it is long; empty if the stack is in no module.
  std::string layer(const Tables& tables, StackId stack, std::uint16_t call) const;
};

/// The key is the number of events in the document.
using ClassificationJob = Background<std::uint32_t, Classification>;

/// Whether the trace is short enough to be judged: longer ones can only be browsed.
bool can_be_classified(const Document& document);

/// Whether it is time to classify `events` events, after `classified` were. A file that is still being written is
/// classified again once it has grown by an eighth, or has been `still` for two seconds: in total some nine times the
/// final number of events, however often it grows.
bool is_due(std::optional<std::uint32_t> classified, std::uint32_t events, bool followed, double still);

/// The result is empty if this needs more memory than allowed. None when cancelled.
std::optional<Classification> classify_trace(WholeTrace& trace, const Progress& progress);

struct CategoryHolding {
  Bytes bytes;
  std::uint64_t count = 0;
};

using LiveByCategory = std::array<CategoryHolding, category_count>;  // by Category

/// Live bytes after `events` events. Costs as much as heap_at(). `sieve`: counts what matches apart from its category;
/// null: all.
LiveByCategory live_by_category(const Document& document, const Classification& classification, HeapId heap,
                                std::uint32_t events, const Sieve* sieve = nullptr);
/// The same for the blocks that a heap holds at an instant.
LiveByCategory live_by_category(std::span<const HeldBlock> blocks, const Classification& classification,
                                const Sieve* sieve = nullptr);

/// What each tag of the program held in a heap at its own peak (GroupBy::tag).
struct HeapTags {
  HeapId heap = HeapId::none;
  std::vector<GroupPeak> peaks;  // largest first
};

struct Findings : Analysis::Results {
  Verdict verdict;  // as `memreel report` opens
  /// The leak verdict of each kept allocation, by number; none for freed ones.
  std::vector<std::optional<LeakVerdict>> of_allocation;
  /// What kept the memory, in Python, when the program's objects were walked.
  PythonHolders python_holders;
  std::vector<DeviceMemory> devices;
  std::vector<HeapTags> tags;  // of heaps in which anything was allocated under a tag
  /// By finding of `leaks`: the row of `python_holders` that keeps it; none: not known.
  std::vector<std::optional<std::uint32_t>> keepers;
  bool tried = false;  // whether settings have been replayed; before, `verdict` is the first one, without a setting
};

/// The findings before settings are replayed, handed from the thread that judges to the one that shows them.
class FirstFindings {
 public:
  void set(Findings findings) {
    auto shared = std::make_shared<const Findings>(std::move(findings));
    const std::lock_guard lock(mutex_);
    findings_ = std::move(shared);
  }
  /// Null until known.
  std::shared_ptr<const Findings> get() const {
    const std::lock_guard lock(mutex_);
    return findings_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Findings> findings_;
};

/// The evidence of one of `findings.leaks`, behind what keeps it, where that is known: "kept by `history` in `train`
/// (train.py:12), list of 4,912 (+1,204); 20 of 20 steps kept ...".
std::string evidence_of(const Findings& findings, const LeakFinding& finding);

/// Live at the end, in the heap, and kept by a row of the findings' `python_holders`: the largest such allocation.
std::optional<std::uint32_t> largest_kept(const Document& document, HeapId heap, const PythonHolders& holders,
                                          std::uint32_t row);

/// May run beside classify_trace(): only who holds the peak needs categories, and waits for them. `first` is called
/// with what is known before settings are replayed, which takes longer than all the rest; may be empty. None when
/// cancelled.
std::optional<Findings> judge_trace(WholeTrace& trace, const Progress& progress,
                                    const std::function<void(Findings)>& first);

}  // namespace memreel::viewer
