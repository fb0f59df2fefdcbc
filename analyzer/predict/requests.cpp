#include "analyzer/predict/requests.h"

#include <algorithm>

#include "analyzer/replay/steps.h"

namespace memreel {
namespace {

std::vector<StackId> sites_of(const Requests& requests) {
  std::vector<StackId> sites;
  sites.reserve(requests.rows.size());
  for (const Request& request : requests.rows) sites.push_back(StackId{request.site});
  std::ranges::sort(sites);
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  return sites;
}

}  // namespace

Requests requests_of(const Trace& trace, HeapId heap) {
  const EventColumns& events = trace.events;
  Requests requests;
  constexpr std::uint32_t none = 0xFFFF'FFFF;
  std::vector<std::uint32_t> row_of(trace.allocation_events.size(), none);
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind[i];
    const AllocationId allocation = events.allocation[i];
    if (allocation == AllocationId::none || trace.tables[events.origin[i]].heap != heap) continue;
    const auto now = static_cast<std::uint32_t>(requests.rows.size());
    std::uint32_t& row = row_of[index(allocation)];
    if (kind == EventKind::alloc) {
      row = now;
      requests.rows.push_back(
          {.site = index(events.stack[i]), .size = events.size[i], .event = i, .lifetime = Request::kept});
    } else if (is_free(kind) && row != none) {
      std::uint32_t& lifetime = requests.rows[row].lifetime;
      if (lifetime == Request::kept) lifetime = now - row - 1;
    }
  }
  for (const std::uint32_t end : find_steps(trace, heap).ends) {
    const auto behind = std::ranges::lower_bound(requests.rows, end, {}, &Request::event) - requests.rows.begin();
    if (requests.ends.empty() || requests.ends.back() < behind)
      requests.ends.push_back(static_cast<std::uint32_t>(behind));
  }
  const auto all = static_cast<std::uint32_t>(requests.rows.size());
  if (requests.ends.empty() || requests.ends.back() < all) requests.ends.push_back(all);
  return requests;
}

std::uint32_t adopt_sites(const Tables& reference, const Requests& reference_requests, const Tables& other,
                          Requests& other_requests, std::uint32_t first_free) {
  const std::vector<StackId> theirs = sites_of(other_requests);
  std::vector<std::uint32_t> site_of(other.stacks.size());
  for (const auto& [a, b] : match_stacks(reference, sites_of(reference_requests), other, theirs))
    if (b != StackId::none) site_of[index(b)] = a != StackId::none ? index(a) : first_free++;
  // No stack is as good as another, and match_stacks() has no word for it.
  for (Request& request : other_requests.rows) request.site = request.site == 0 ? 0 : site_of[request.site];
  return first_free;
}

}  // namespace memreel
