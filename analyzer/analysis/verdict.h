// SPDX-License-Identifier: Apache-2.0
// The summary of a report: at most five lines that open it, as values shared by every format and the viewer.
#pragma once

#include <span>

#include "analyzer/analysis/category/kept_graphs.h"
#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/fragmentation.h"
#include "analyzer/analysis/insight/host_memory.h"
#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/analysis/insight/out_of_memory.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/describe/live_groups.h"
#include "formats/model/trace.h"

namespace memreel {

/// A part of the live memory, under the name that explains it: a category, or a place in the program.
struct Holder {
  std::string label;
  Bytes bytes;
  std::string mostly;    // for a category: the place that most of it comes from, if that is more than half; else empty
  bool by_size = false;  // a category that most of it has by its size, being older than the recording

  /// It is of memory without a stack, or of which only its age is known.
  bool names_no_place() const;
};

/// Who holds the live memory of one heap at an instant.
struct Holders {
  std::string by = "site";    // kind of `parts`: "category", "site", "function", "library"
  std::vector<Holder> parts;  // largest first
  Bytes total;                // of all parts
  KeptGraphs graphs;
};

/// Who holds the memory of a heap after `events`: by category, if it is known for at least half of the bytes and not
/// the same for nearly all; else by stack, if that names a place. `shares`: of that instant; empty if no categories are
/// known.
Holders holders_at(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
                   std::span<const CategoryShare> shares);

/// The same at the live peak of `heap`; by library for what the driver's calls don't show.
Holders holders_at_peak(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap,
                        std::span<const CategoryShare> shares, const KeptGraphs& graphs);

/// The heap that decides how large a device the program needs: a framework's if there is one with a tenth of what is
/// largest on its device, else the driver's; one where requests failed, if any did; with the highest reserved peak, or
/// live peak if no segments were recorded. Null if nothing was allocated.
///
/// `devices`: a GPU on which no framework has memory, as the driver's heap says what it needs; empty: not considered.
const HeapHistory* deciding_heap(const Tables& tables, std::span<const HeapHistory> heaps,
                                 std::span<const DeviceMemory> devices = {});

struct Verdict {
  /// The deciding fact: failed requests, else the peak.
  struct Decides {
    HeapId heap = HeapId::none;
    std::int32_t device = 0;
    std::uint64_t devices = 0;          // number of devices that count: with such a heap, or with much memory
    bool are_gpus = true;               // false: of any kind, as in JAX's profiles, which are also written on TPUs
    Bytes peak_live, peak_reserved;     // reserved 0: no segments were recorded
    std::string heap_name;              // of one instant, if the frameworks have other heaps on the device: `beside`
    std::vector<Holder> beside;         // their live memory at that instant
    Bytes folded_peak;                  // live at least, before the events that a flight recorder keeps
    std::uint64_t peak_event = 0;       // of the reserved peak, else of the live one
    Nanoseconds peak_time{};            // since the first event of its recording
    std::uint32_t step = 0, steps = 0;  // the peak is in `step` of `steps`; 0: unknown
    std::uint32_t live_step = 0;        // in which most was live: memory may stay reserved after it
    std::uint64_t failed = 0;           // number of requests
    std::uint64_t fragmented = 0;       // of the examined failures, those caused by fragmentation
    std::string reason;                 // of the first failure, e.g. "fragmentation"
    std::string site;                   // of the first failure
    std::uint64_t failure_event = 0;    // of the first failure
    Bytes requested, live;              // of the first failure; live at that time
    Bytes held_through;                 // if the requests that failed never grew: live at each of them; else 0
  };
  /// The deciding heap's device at its own peak, if more than a tenth of that is outside the frameworks' heaps.
  struct Device {
    Bytes held;
    std::uint64_t event = 0;
    std::uint32_t step = 0;     // of Decides::steps, in which that was
    std::vector<Holder> parts;  // by library or pool, largest first; as a holder "NCCL in 3 communicators"
  };
  /// Another device of the program, when the request failed, or at the peak that is named.
  struct Other {
    std::int32_t device = 0;
    Bytes live;
  };
  struct Leaks {
    std::string not_judged;   // why, e.g. "not judged: the recording holds 1 step"; empty: judged
    bool unrecorded = false;  // not judged, because the recording lacks allocations or frees
    std::uint32_t steps = 0;  // that the recording holds
    Bytes bytes;              // 0: no leak
    double growth_bytes_per_step = 0;
    GrowsWith unit = GrowsWith::steps;
    std::uint64_t causes = 0;
    std::string site;                       // of the largest cause
    bool suspected = false;                 // all of it suspected rather than certain
    bool on_host = false;                   // all of it is pinned host memory
    double host_growth_bytes_per_step = 0;  // of the process's resident set; 0: not steady, or not sampled
    Bytes host_grown;                       // in the steps that this is known from
    Bytes in_bursts;         // at the live peak: of places whose memory is freed in bursts, as by garbage collection
    std::string burst_site;  // that holds most of it
    std::string cycle;       // "Node, dict": the classes of the reference cycles that keep it, if a walk saw them
  };
  struct Fragments {
    Bytes reserved, allocated;  // at the reserved peak
    Bytes requested;            // of `allocated`, without rounding and unsplit remainders
    Bytes unreleasable;         // free, next to active blocks
    Bytes cached;               // the other free bytes, which PyTorch gives back before a request fails
    std::string site;           // whose blocks pin most of it
    double share = 0;           // of the reserved bytes, those not allocated
    bool inherited = false;     // the peak was reserved before the recording began
    Bytes most_used;            // allocated at the reserved peak, or live at another time if that is more
    Bytes releasable;           // saved by empty_cache() before the recording (saved_by_release), or at the instant
    std::string cause;          // what most of the unused memory is, beyond a place; empty: nothing in particular
    std::string cause_site;     // whose it is; may be empty
    // Of the first request that failed by fragmentation; 0: none did.
    Bytes free_at_failure, largest_at_failure;  // in the pool; the largest block that the request could use
  };
  struct Setting {
    bool is_torch = false;  // otherwise `text` is an allocator that any program can use
    std::string text;       // as in PYTORCH_CUDA_ALLOC_CONF; empty: none is better
    std::string change;     // how it differs from the recorded settings, in words
    std::string needs;      // the PyTorch release that has it; empty: any
    std::string caution;    // a side effect that this program may meet, in a few words
    Bytes peak, saved;      // with it; the reduction by it, both for certain
    /// If the recording began late: the least and the most that `change` may save; negative: it needs more.
    std::optional<std::pair<std::int64_t, std::int64_t>> late_range;
    std::string unsure;  // a change that may save enough to matter, in `late_range`, or not; empty: none
    std::uint64_t failed = 0, failed_before = 0;
    std::uint64_t failed_at_most = 0;  // `failed`, or more if the memory of the device is only known to have a limit
    std::optional<Reach> reach;        // of a history that ends in its failure, instead of `failed`
    Bytes spare;                       // after the request, if reach is `request`
    std::string misread;               // a recorded setting that PyTorch did not take; empty: none
    std::string instead;               // what else to do, where no setting helps
    double live_share = 0;             // share of the peak that is live, a lower bound for every allocator
    std::uint64_t tried = 0;           // number of settings, or allocators, replayed
    bool exact = false;                // the replay of the recorded settings reproduces the recording and its refusals
    std::int64_t best_saved = 0;       // the most that any saves, even if too little to matter or negative
    std::string best_needs;            // the PyTorch release that the one which saves most needs; empty: any
  };
  /// The Python variable that keeps most of the largest leak, else of all memory.
  struct KeptBy {
    std::string text;    // "`history` in `train` (train.py:12), list of 4,912"
    std::string growth;  // growth_words() of it
    Bytes bytes;
    bool is_leak = false;
  };

  // Absent: not examined, or not recorded.
  std::optional<Decides> decides;
  bool is_instant = false;   // the recording holds one instant: no peak, and nothing that a replay could repeat
  bool unrecorded = false;   // allocations were not recorded: that there are none says nothing
  bool incomplete = false;   // parts of the trace are lost, so that there may have been what it doesn't show
  bool lacks_frees = false;  // may_lack_frees(): what was live, and what a replay needs, is known roughly
  std::optional<Device> device;
  std::vector<Other> others;  // by device
  std::optional<Holders> holders;
  bool has_optimizer = false;  // PyTorch marked one: the program trains, even if it came to no backward pass
  std::optional<Leaks> leaks;
  std::optional<KeptBy> kept_by;
  std::optional<Fragments> fragmentation;
  std::optional<Setting> setting;
};

/// What to set, or that nothing helps, by what `remedies` tried; none if they tried nothing that the program can use.
/// `ooms`: null if not examined. `exact`: whether the recording replays to the byte.
std::optional<Verdict::Setting> setting_of(const Trace& trace, const Remedies& remedies, const HeapHistory& heap,
                                           const OutOfMemories* ooms, bool exact);

/// The capacity that a heap was replayed with, if more was reserved when it was recorded.
std::optional<Bytes> capacity_below_peak(const Remedies& remedies, const HeapHistory& heap);

/// The inputs of a verdict; null: not examined.
struct Findings {
  std::span<const HeapHistory> heaps;
  std::span<const DeviceMemory> devices = {};
  const Holders* holders = nullptr;  // of the deciding heap
  std::optional<Verdict::Device> device;
  const LeakReport* leaks = nullptr;
  std::optional<ResidentSet> resident;
  const std::vector<Fragmentation>* fragmentation = nullptr;
  const OutOfMemories* ooms = nullptr;
  const Remedies* remedies = nullptr;
  bool exact = false;  // the recorded allocator was reproduced
};

/// Who has the device at its peak; nothing unless the driver's calls are recorded and more than a tenth of it is
/// outside the frameworks' heaps. `deciding`: whose largest holder then is named with its part; `holders_after`: who
/// holds its memory after so many events.
std::optional<Verdict::Device> device_at_peak(const Trace& trace, const std::vector<Lifetime>& lives,
                                              const DeviceMemory& device, HeapId deciding,
                                              const std::function<Holders(std::uint64_t)>& holders_after);

Verdict make_verdict(const Trace& trace, const Findings& findings);

struct VerdictLine {
  // "OOM", "peak" or "instant"; "held by", "graph", "autocast", "others", "leaks", "kept by", "fragmented", "set" or
  // "use"
  std::string topic;
  std::string text;    // contains names from the trace, so it must be escaped
  bool alarm = false;  // a leak or a failure
};

/// At least one, at most five; one fewer if the line of the setting, which takes replays, is to follow.
std::vector<VerdictLine> lines_of(const Verdict& verdict, bool setting_follows = false);

// Who has a device's memory: pools, and the libraries that allocate from the driver.

/// Who has a part of a device.
struct DevicePart {
  std::string name;            // of a pool ("PyTorch"), or of a library ("NCCL")
  HeapId heap = HeapId::none;  // of the driver, for libraries
  Bytes bytes;
  std::uint64_t communicators = 0;  // of NCCL, if they are told apart
};

/// What each holds of the device at an instant; largest first. `lives`: of the trace.
std::vector<DevicePart> parts_of(const Trace& trace, const std::vector<Lifetime>& lives, const DeviceInstant& instant);

}  // namespace memreel
