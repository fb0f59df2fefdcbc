// SPDX-License-Identifier: Apache-2.0
// The metrics that a gate judges, and where the memory was held at their worst.
#pragma once

#include <map>
#include <set>
#include <span>

#include "analyzer/analysis/analysis.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

// Whether a trace shows everything that a gate judges. What is missing might have exceeded every budget.

/// The parts of the program's history that the trace lacks, each in a few words ("what came before the recording
/// began"); empty if it is complete.
std::vector<std::string> what_is_missing(const Losses& losses, const ReadReport& read, Bytes file_size);

inline std::vector<std::string> what_is_missing(const Trace& trace) {
  return what_is_missing(trace.losses, trace.read, trace.file_size);
}

/// What a device holds while its heaps are replayed with one policy, and what is beside them is as recorded.
struct PolicyMetrics {
  std::string policy;  // as given
  std::int32_t device = 0;
  Bytes peak_reserved;  // of the device, at one instant
  double fragmentation_at_peak = 0;
  std::uint64_t failed_allocations = 0;
  std::optional<std::pair<Bytes, Bytes>> late_range;  // of peak_reserved, if heaps began late (beginning.h)
  std::optional<Bytes> exceeded;                      // a capacity that is less than the recording shows to be needed
  std::string unjudged;  // why none of this is judged, though replayed: "with ..., not judged: ..."; else empty
  std::string unjudged_capacity, unjudged_fragmentation;  // why these are not judged, likewise

  friend bool operator==(const PolicyMetrics&, const PolicyMetrics&) = default;
};

/// Memory held by one function of user code; line numbers and directories change too often to be compared.
struct SiteMetrics {
  std::string function, file;  // file without directories
  Bytes bytes;
  std::vector<std::string> stack;  // of the largest part, in user code: innermost first, "step (train.py:7)"; cut short
  Bytes of_stack;                  // what that part has

  /// Whether a baseline has the same values: it does not store stacks.
  friend bool operator==(const SiteMetrics& a, const SiteMetrics& b) {
    return a.function == b.function && a.file == b.file && a.bytes == b.bytes;
  }
};

/// The highest live bytes of one category.
struct CategoryMetrics {
  Bytes peak;
  Bytes peak_with_unknown;  // of it and unknown categories: the smallest limit that is proven not to be exceeded
  std::string place;        // that held the largest part of it at its peak (live_groups.h)
};

/// The policy-independent metrics of a device, over all of its heaps.
struct DeviceMetrics {
  std::int32_t device = 0;
  Bytes peak_live;                 // at one instant
  Bytes leaked;                    // by stacks judged `leak` or `suspected`
  std::string leaks_not_judged;    // why leaks of this device were not judged; empty: they were, or are not asked for
  std::vector<SiteMetrics> sites;  // live at the peak of live bytes, largest first; the largest `max_sites`
  std::vector<SiteMetrics> leaks;  // the parts of `leaked`, likewise
  std::map<Category, CategoryMetrics> categories;  // those that MeasureOptions requests
  std::uint32_t steps = 0;                         // that the recording holds; 0: none were found
  std::vector<std::string> heaps;                  // that have memory, in alphabetical order
  bool has_driver = false;  // the driver's calls are recorded; otherwise only pools are: a part of the device

  /// Whether a baseline has the same values: it stores where memory is held, not where it leaks.
  friend bool operator==(const DeviceMetrics& a, const DeviceMetrics& b) {
    return a.device == b.device && a.peak_live == b.peak_live && a.leaked == b.leaked && a.sites == b.sites &&
           a.steps == b.steps && a.heaps == b.heaps;
  }
};

inline constexpr std::size_t max_sites = 50;

/// The value of PolicyMetrics::policy for what the device held as recorded, without a replay.
inline constexpr std::string_view recorded_metrics = "recorded";

struct Measured {
  std::vector<PolicyMetrics> policies;  // by policy in the given order, then device
  std::vector<DeviceMetrics> devices;   // ascending
  std::string settings;                 // of the allocator that the program ran with, as a policy; empty: unknown
  std::uint64_t failures = 0;           // requests that were refused in the recording
  bool is_instant = false;              // the trace has no history
  std::string version;                  // of memreel; empty: an older baseline, which lacks steps and heaps, too

  friend bool operator==(const Measured&, const Measured&) = default;
};

struct MeasureOptions {
  std::optional<DeviceModel> device;  // as in ReplayOptions
  bool leaks = true;                  // find leaks: costs another pass
  std::set<Category> categories;      // to measure
  bool recorded = false;              // add recorded_metrics, if what the device's heaps reserved is recorded
  std::string heap;                   // judge only heaps of this name, as if they were their devices; empty: all
};

/// Whether the trace shows how much the heap reserved: by its segments, or because it hands out device memory.
bool records_reserved(const Analysis& analysis, const Prepared& heap);

/// The devices that are judged: those of GPUs; host memory only if there is nothing else.
std::vector<std::int32_t> judged_devices(std::span<const DeviceMemory> devices);

/// Replays `specs` on `heaps`, heaps of the trace; those that began late begin afresh. Everything else on their devices
/// is as recorded. Devices without such a heap, and all without `specs`, get recorded_metrics. Errors: as replay().
Result<Measured> measure(const Analysis& analysis, std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                         const MeasureOptions& options);

}  // namespace memreel
