// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/requests.h"

#include "analyzer/analysis/history/lifetimes.h"
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

using Rows = std::span<const Request>;

/// Whether consecutive rows have the lifetimes of a kernel's requests and a common site. `result`: which of them is the
/// kernel's result, whose lifetime is not checked.
bool live_like(Rows rows, const KernelRequests& wanted) {
  const std::size_t result = wanted.before.size(), count = result + 1 + wanted.after.size();
  if (rows.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i].site != rows[0].site) return false;
    if (i == result) continue;
    const KernelRequest& request = i < result ? wanted.before[i] : wanted.after[i - result - 1];
    if (rows[i].lifetime != request.lifetime || rows[i].size != request.size) return false;
  }
  return true;
}

/// Whether an allocation of at least that size is live when a row is requested.
bool is_live(Rows rows, std::size_t row, Bytes least) {
  constexpr std::size_t furthest = 4096;
  for (std::size_t back = 1; back <= std::min(row, furthest); ++back)
    if (rows[row - back].size >= least && rows[row - back].lifetime >= back) return true;
  return false;
}

/// The scratch of sums whose result is `row`, if their input is live.
std::optional<SumScratch> sums_at(Rows rows, std::size_t row) {
  const Rows here = rows.subspan(row);
  if (here.size() < 3) return std::nullopt;
  const SumScratch scratch{.partial_sums = here[1].size, .semaphores = here[2].size};
  if (!live_like(here, requests_of(scratch))) return std::nullopt;
  for (const std::uint64_t number : number_bytes)
    for (const SumLayout layout : {SumLayout::rows, SumLayout::columns}) {
      if (here[0].size.count % number != 0) continue;
      const std::optional<std::uint64_t> summed = rows_of_scratch(here[0].size.count / number, layout, scratch);
      if (summed && is_live(rows, row, here[0].size * (*summed / 2))) return scratch;
    }
  return std::nullopt;
}

/// The gradient of an embedding that begins at `row`, by the rules of any GPU.
std::optional<RecordedEmbedding> embedding_at(Rows rows, std::size_t row) {
  const Rows here = rows.subspan(row);
  if (here.size() < embedding_requests || here[0].size != here[1].size || here[0].size != here[2].size)
    return std::nullopt;
  std::array<Bytes, embedding_requests> sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = here[i].size;
  const std::optional<EmbeddingGradient> gradient = embedding_gradient_of(sizes);
  if (!gradient) return std::nullopt;
  RecordedEmbedding found{.gradient = *gradient};
  const bool known = std::ranges::any_of(capabilities_of_embeddings(), [&](std::uint32_t capability) {
    found.requests = requests_of(*gradient, {.compute_capability = capability});
    return live_like(here, found.requests);
  });
  if (!known) return std::nullopt;
  // Two-byte numbers are twice as many: the gradient's source decides, which is freed with the last request.
  EmbeddingGradient half = *gradient;
  half.number /= 2;
  half.words *= 2;
  const auto made_from = [&](const EmbeddingGradient& of) {
    constexpr std::size_t furthest = 64;
    for (std::size_t back = 1; back <= std::min(row, furthest); ++back)
      if (rows[row - back].size == of.source() && rows[row - back].lifetime == back + embedding_requests - 1)
        return true;
    return false;
  };
  if (!made_from(*gradient) && made_from(half)) found.gradient = half;
  return found;
}

/// Removes from the rows what kernels requested in addition to their results.
void take_kernels(Requests& requests) {
  std::vector<Request>& rows = requests.rows;
  const auto count = static_cast<std::uint32_t>(rows.size());
  std::vector<std::uint32_t> new_row(count + 1);
  std::uint32_t kept = 0;
  const auto take = [&](std::uint32_t row, std::size_t before, std::size_t after, const auto& kernel) {
    requests.kernels.push_back({.row = kept, .kernel = kernel});
    std::fill_n(new_row.begin() + row, before + 1, kept++);
    std::fill_n(new_row.begin() + static_cast<std::ptrdiff_t>(row + before + 1), after, kept);
    return static_cast<std::uint32_t>(before + after);
  };
  std::vector<bool> is_taken(count);
  for (std::uint32_t row = 0; row < count; ++row) {
    std::uint32_t taken = 0, result = row;
    if (rows[row].older) {
      new_row[row] = kept++;
    } else if (const std::optional<RecordedEmbedding> embedding = embedding_at(rows, row)) {
      taken = take(row, embedding_result, embedding_requests - 1 - embedding_result, *embedding);
      result = row + embedding_result;
    } else if (const std::optional<SumScratch> scratch = sums_at(rows, row)) {
      taken = take(row, 0, 2, *scratch);
    } else {
      new_row[row] = kept++;
    }
    for (std::uint32_t i = row; i <= row + taken; ++i) is_taken[i] = i != result;
    row += taken;
  }
  new_row[count] = kept;
  for (std::uint32_t row = 0; row < count; ++row) {
    if (is_taken[row]) continue;
    Request request = rows[row];
    if (request.lifetime != Request::kept)
      request.lifetime =
          new_row[row + request.lifetime + 1] - std::min(new_row[row] + 1, new_row[row + request.lifetime + 1]);
    rows[new_row[row]] = request;
  }
  rows.resize(kept);
}

}  // namespace

KernelRequests requests_of(const RecordedKernel& recorded) {
  if (const auto* const scratch = std::get_if<SumScratch>(&recorded.kernel)) return requests_of(*scratch);
  return std::get<RecordedEmbedding>(recorded.kernel).requests;
}

Requests requests_of(const Trace& trace, HeapId heap) {
  const Events& events = trace.events;
  Requests requests;
  constexpr std::uint32_t none = 0xFFFF'FFFF;
  const std::vector<char> older = older_allocations(trace);
  std::vector<std::uint32_t> row_of(trace.events.allocation_count(), none);
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind(i);
    const AllocationId allocation = events.allocation(i);
    if (allocation == AllocationId::none || trace.tables[events.origin(i)].heap != heap) continue;
    const auto now = static_cast<std::uint32_t>(requests.rows.size());
    std::uint32_t& row = row_of[index(allocation)];
    if (kind == EventKind::alloc) {
      row = now;
      requests.rows.push_back({.site = index(events.stack(i)),
                               .size = events.size(i),
                               .event = i,
                               .lifetime = Request::kept,
                               .older = older[index(allocation)] != 0});
    } else if (is_free(kind) && row != none) {
      std::uint32_t& lifetime = requests.rows[row].lifetime;
      if (lifetime == Request::kept) lifetime = now - row - 1;
    }
  }
  take_kernels(requests);
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
  // No stack matches only itself, and match_stacks() can't express it.
  for (Request& request : other_requests.rows) request.site = request.site == 0 ? 0 : site_of[request.site];
  return first_free;
}

}  // namespace memreel
