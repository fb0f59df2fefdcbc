// What a report comes down to: at most five lines that open it, as values that every format and the viewer share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/history/lifetimes.h"
#include "analyzer/insight/fragmentation.h"
#include "analyzer/insight/leaks.h"
#include "analyzer/insight/out_of_memory.h"
#include "analyzer/insight/remedies.h"
#include "analyzer/report/category_shares.h"
#include "formats/model/trace.h"

namespace memreel {

/// A part of what is live, by whatever name explains it: a category, or a place in the program.
struct Holder {
  std::string label;
  Bytes bytes;
  std::string mostly;  // of a category: the place that most of it is from, if that is more than half; else empty
};

/// Who holds the live memory of one heap at an instant.
struct Holders {
  std::string by = "site";    // what `parts` are: "category", "site", "function"
  std::vector<Holder> parts;  // largest first
  Bytes total;                // of all parts
};

/// By category, where it is known of at least half of the bytes and not the same for nearly all; else without parts.
Holders holders_by_category(std::span<const CategoryShare> shares);

/// By the frame that explains; by the innermost frame of all where that is the same for nearly
/// everything but the innermost frames tell parts apart.
Holders holders_by_stack(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events);

/// Who holds what is live at the live peak of `heap`: by category where that says something, else by stack. `shares`:
/// of that instant; empty where no categories are known.
Holders holders_at_peak(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap,
                        std::span<const CategoryShare> shares);

/// The heap that decides how large a device the program needs: of frameworks where there are any, else of the driver,
/// the one with the highest reserved peak; with the highest live peak where no segments were recorded. Null when
/// nothing was allocated.
const HeapHistory* deciding_heap(const Tables& tables, std::span<const HeapHistory> heaps);

/// The change that unsets PYTORCH_CUDA_ALLOC_CONF.
inline constexpr std::string_view pytorch_defaults = "PyTorch's defaults";

struct Verdict {
  /// What decides: requests that failed, else the peak.
  struct Decides {
    HeapId heap = HeapId::none;
    std::int32_t device = 0;
    std::uint64_t devices = 0;          // that have such a heap
    Bytes peak_live, peak_reserved;     // reserved 0: no segments were recorded
    std::uint64_t peak_event = 0;       // of the reserved peak, else of the live one
    Nanoseconds peak_time{};            // since the first event
    std::uint32_t step = 0, steps = 0;  // the peak is in `step` of `steps`; 0: not known
    std::uint64_t failed = 0;           // requests
    std::uint64_t fragmented = 0;       // of the failures that were examined, those because of fragmentation
    std::string reason;                 // of the first failure, e.g. "fragmentation"
    std::string site;                   // of the first failure
    Bytes requested, live;              // by the first failure; live when it failed
  };
  struct Leaks {
    std::uint32_t steps = 0;  // that were judged; 0: too few
    std::string unit;         // "step" or "interval"
    Bytes bytes;              // 0: no leak
    double growth_bytes_per_step = 0;
    std::uint64_t causes = 0;
    std::string site;         // of the largest cause
    bool suspected = false;   // rather than certain, all of it
    bool unrecorded = false;  // not judged: allocations or frees were left out of the recording
  };
  struct Fragments {
    Bytes reserved, allocated;  // at the reserved peak
    Bytes unreleasable;         // free, beside blocks that are active
    std::string site;           // whose blocks keep most of it
    double share = 0;           // of the reserved bytes that were not allocated
    // When a request failed by fragmentation, the first of these; 0: none did.
    Bytes free_at_failure, largest_at_failure;  // in the pool; the largest block that the request could use
  };
  struct Setting {
    bool is_torch = false;  // else `text` is an allocator that any program can use
    std::string text;       // as in PYTORCH_CUDA_ALLOC_CONF; empty: nothing is better
    std::string change;     // what of it differs from the recorded settings, in words
    std::string needs;      // the release of PyTorch that has it; empty: any
    Bytes peak, saved;      // with it; without it less that
    std::uint64_t failed = 0, failed_before = 0;
    double live_share = 0;        // of the peak that is live, which no allocator gets below
    std::uint64_t tried = 0;      // settings, or allocators, that were replayed
    bool exact = false;           // the replay of the recorded settings repeats the recording
    std::int64_t best_saved = 0;  // by the best that was tried, be it too little to matter or negative
  };

  // Absent: not examined, or nothing was recorded that could say.
  std::optional<Decides> decides;
  std::optional<Holders> holders;
  std::optional<Leaks> leaks;
  std::optional<Fragments> fragmentation;
  std::optional<Setting> setting;
};

/// What a verdict is made from; null: not examined.
struct Findings {
  std::span<const HeapHistory> heaps;
  const Holders* holders = nullptr;  // of the deciding heap
  const LeakReport* leaks = nullptr;
  const std::vector<Fragmentation>* fragmentation = nullptr;
  const OutOfMemories* ooms = nullptr;
  const Remedies* remedies = nullptr;
  bool exact = false;  // the recorded allocator was reproduced
};

Verdict make_verdict(const Trace& trace, const Findings& findings);

struct VerdictLine {
  std::string topic;   // "OOM" or "peak"; "held by", "leaks", "fragmented", "set" or "use"
  std::string text;    // with names from the trace in it: to be escaped
  bool alarm = false;  // a leak or a failure
};

/// At most five, never none.
std::vector<VerdictLine> lines_of(const Verdict& verdict);

}  // namespace memreel
