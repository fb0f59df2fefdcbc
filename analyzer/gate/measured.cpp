#include "analyzer/gate/measured.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/history/lifetimes.h"
#include "analyzer/report/live_groups.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

using SiteBytes = std::map<std::pair<std::string, std::string>, Bytes>;

/// Adds what each function holds when `heap` is at its peak.
void add_sites(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap, SiteBytes& sites) {
  if (heap.allocations == 0) return;
  for (const LiveGroup& group : live_groups(trace, lives, heap.heap, heap.peak_live_event + 1, GroupBy::stack)) {
    const FrameText frame = own_frame(frames_of(trace.tables, group.stack));
    sites[{std::string(frame.function), std::string(base_name(frame.file))}] += group.bytes;
  }
}

std::vector<SiteFigures> largest(const SiteBytes& bytes) {
  std::vector<SiteFigures> sites;
  for (const auto& [place, held] : bytes)
    sites.push_back({.function = place.first, .file = place.second, .bytes = held});
  std::ranges::stable_sort(sites, std::ranges::greater(), &SiteFigures::bytes);
  if (sites.size() > max_sites) sites.resize(max_sites);
  return sites;
}

std::vector<DeviceFigures> device_figures(const Trace& trace, std::span<const Prepared> heaps,
                                          const MeasureOptions& options) {
  struct OfDevice {
    Bytes peak_live, leaked;
    SiteBytes sites;
  };
  std::map<std::int32_t, OfDevice> by_device;
  const std::vector<Lifetime> lives = lifetimes(trace);
  const std::vector<HeapHistory> histories = heap_histories(trace);
  for (const Prepared& heap : heaps) {
    const auto history = std::ranges::find(histories, heap.heap, &HeapHistory::heap);
    if (history == histories.end()) continue;
    by_device[heap.device].peak_live += history->peak_live;
    add_sites(trace, lives, *history, by_device[heap.device].sites);
  }
  if (options.leaks) {
    for (const LeakFinding& finding : find_leaks(trace, options.leak_options).findings) {
      const auto heap = std::ranges::find(heaps, finding.heap, &Prepared::heap);
      if (accuses(finding.verdict) && heap != heaps.end()) by_device[heap->device].leaked += finding.bytes;
    }
  }
  std::vector<DeviceFigures> devices;
  for (const auto& [device, of] : by_device)
    devices.push_back({.device = device, .peak_live = of.peak_live, .leaked = of.leaked, .sites = largest(of.sites)});
  return devices;
}

}  // namespace

Result<Measured> measure(const Trace& trace, std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                         const MeasureOptions& options) {
  const Result<std::vector<ReplayResult>> results = replay(heaps, specs, {.device = options.device});
  if (!results) return results.error();
  Measured measured{.policies = {}, .devices = device_figures(trace, heaps, options)};
  for (std::size_t s = 0; s < specs.size(); ++s) {
    std::map<std::int32_t, PolicyFigures> by_device;
    for (const ReplayResult& r : std::span(*results).subspan(s * heaps.size(), heaps.size())) {
      if (r.defect) return *r.defect;
      PolicyFigures& figures = by_device.try_emplace(r.device, PolicyFigures{specs[s].text(), r.device}).first->second;
      // Of several heaps, the one that reserves most decides how fragmented the device is.
      if (r.peak_reserved > figures.peak_reserved || figures.peak_reserved == 0_B)
        figures.fragmentation_at_peak = r.fragmentation_at_peak;
      figures.peak_reserved += r.peak_reserved;
      figures.failed_allocations += r.failed_allocations;
    }
    for (const auto& [device, figures] : by_device) measured.policies.push_back(figures);
  }
  return measured;
}

}  // namespace memreel
