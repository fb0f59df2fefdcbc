#include "analyzer/cli/pool_text.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/cli/console.h"
#include "analyzer/cli/report.h"
#include "analyzer/report/text_table.h"
#include "formats/model/origin_text.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

/// The median of what the uses after the first added.
std::optional<Bytes> marginal_cost(const PrivatePool& pool) {
  std::vector<Bytes> costs;
  for (const PoolUse& use : pool.uses) costs.push_back(use.grew);
  if (costs.size() < 2) return std::nullopt;
  const std::span<Bytes> others = std::span(costs).subspan(1);
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  return *middle;
}

}  // namespace

std::array<std::string, 7> pool_cells(const Tables& tables, const PrivatePool& pool) {
  const std::optional<Bytes> each = marginal_cost(pool);
  return {pool_label(tables, pool.pool), text_of(std::uint64_t{pool.uses.size()}),
          text_of(pool.reserved),        text_of(pool.peak_reserved),
          text_of(pool.reusable()),      text_of(pool.uses.front().grew),
          each ? text_of(*each) : ""};
}

std::string sharing_words(const Tables& tables, const PrivatePool& pool) {
  if (pool.uses.size() < 2 || pool.shared() == 0_B) return {};
  return pool_label(tables, pool.pool) + ": its " + text_of(std::uint64_t{pool.uses.size()}) +
         " captures share memory; with a pool each they would need " + text_of(pool.shared()) + " more";
}

void print_pools_text(const Trace& trace, const HeapReport& heap, const ReportOptions& options) {
  if (heap.pools.empty()) return;
  const bool graphs = std::ranges::any_of(heap.pools, &PrivatePool::has_captures);
  std::cout << '\n' << bold(graphs ? "private pools of CUDA graphs" : "private pools") << "\n\n";
  std::vector<TableColumn> columns;
  for (const std::string_view title : pool_titles)
    columns.push_back({std::string(title), columns.empty() ? Align::left : Align::right});
  TextTable table(columns);
  const std::size_t shown = std::min(options.top, heap.pools.size());
  for (const PrivatePool& pool : std::span(heap.pools).first(shown)) {
    const auto cells = pool_cells(trace.tables, pool);
    table.add_row({cells.begin(), cells.end()});
  }
  table.print(std::cout, 2);
  if (shown < heap.pools.size())
    std::cout << "  ... and " << text_of(std::uint64_t{heap.pools.size() - shown}) << " more (--top)\n";
  for (const PrivatePool& pool : std::span(heap.pools).first(shown))
    if (const std::string words = sharing_words(trace.tables, pool); !words.empty())
      std::cout << wrapped("pool " + words, 2);
}

}  // namespace memreel::cli
