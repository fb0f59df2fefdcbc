#include "analyzer/predict/requests.h"

#include <algorithm>
#include <span>

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

/// Whether the two requests behind the first of `rows` are scratch of the sums that it is for: freed before anything
/// else is asked for, the last first.
bool is_sum(std::span<const Request> rows) {
  if (rows.size() < 3 || rows[1].lifetime != 1 || rows[2].lifetime != 0) return false;
  if (rows[0].site != rows[1].site || rows[0].site != rows[2].site) return false;
  const SumScratch scratch{.partial_sums = rows[1].size, .semaphores = rows[2].size};
  return std::ranges::any_of(number_bytes, [&](std::uint64_t bytes) {
    return rows[0].size.count % bytes == 0 && rows_of_scratch(rows[0].size.count / bytes, scratch).has_value();
  });
}

/// Takes the scratch of sums out of the rows.
void take_sums(Requests& requests) {
  std::vector<Request>& rows = requests.rows;
  const auto count = static_cast<std::uint32_t>(rows.size());
  std::vector<std::uint32_t> new_row(count + 1);
  std::uint32_t kept = 0;
  for (std::uint32_t row = 0; row < count; ++row) {
    new_row[row] = kept++;
    if (!is_sum(std::span(rows).subspan(row))) continue;
    requests.sums.push_back({.row = new_row[row], .scratch = {rows[row + 1].size, rows[row + 2].size}});
    new_row[row + 1] = new_row[row + 2] = kept;
    row += 2;
  }
  new_row[count] = kept;
  for (std::uint32_t row = 0; row < count; ++row) {
    Request request = rows[row];
    if (request.lifetime != Request::kept)
      request.lifetime =
          new_row[row + request.lifetime + 1] - std::min(new_row[row] + 1, new_row[row + request.lifetime + 1]);
    rows[new_row[row]] = request;
  }
  rows.resize(kept);
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
  take_sums(requests);
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
