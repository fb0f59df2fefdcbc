// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/kept_by.h"

#include <algorithm>

#include "formats/model/quantity.h"

namespace memreel {

const std::array<ResultField<PythonHolder>, 6> FieldsOf<PythonHolder>::all = {{
    {"bytes", "bytes", Unit::bytes, "What it keeps; a block that several keep counts in each",
     [](const Tables&, const PythonHolder& row) -> Cell { return row.bytes; }},
    {"blocks", "blocks", Unit::count, "How many blocks that is",
     [](const Tables&, const PythonHolder& row) -> Cell { return row.blocks; }},
    {"length", "length", Unit::count, "Its elements or nodes; the blocks if it is no container",
     [](const Tables&, const PythonHolder& row) -> Cell { return row.length; }},
    {"length_before", "before", Unit::count, "The same in the walk before; null: there was none, or it was not there",
     [](const Tables&, const PythonHolder& row) -> Cell {
       return row.length_before == 0 ? Cell() : Cell(row.length_before);
     }},
    {"kind", "", Unit::text, "The container's class, `autograd graph`, `reference cycle`, or empty for anything else",
     [](const Tables&, const PythonHolder& row) -> Cell { return row.kind; }},
    {"text", "kept by", Unit::text, "The variable, container or graph, in the program's words",
     [](const Tables&, const PythonHolder& row) -> Cell { return row.text; }},
}};

const PythonHolder* holder_of(const Trace& trace, std::span<const AllocationId> allocations) {
  const PythonHolders& found = trace.python_holders;
  if (found.blocks.empty()) return nullptr;
  std::vector<Bytes> held(found.rows.size());
  Bytes all;
  for (const AllocationId id : allocations) {
    const std::uint32_t event = trace.events.begin_of(id);
    const Address begin = trace.events.address(event);
    const Bytes size = trace.events.size(event);
    all += size;
    const auto block = std::ranges::lower_bound(found.blocks, begin, {}, &PythonBlock::address);
    if (block != found.blocks.end() && block->address - begin < size) held[block->holder] += size;
  }
  const auto most = std::ranges::max_element(held);
  return *most == 0_B || *most < Bytes{all.count / 10} ? nullptr
                                                       : &found.rows[static_cast<std::size_t>(most - held.begin())];
}

std::string growth_words(const PythonHolder& holder) {
  if (holder.length_before == 0 || holder.length <= holder.length_before) return {};
  return " (+" + text_of(holder.length - holder.length_before) + ")";
}

std::string walk_words(const PythonHolders& holders) {
  if (holders.empty()) return {};
  std::string words;
  if (holders.objects > 0)
    words = counted(holders.objects, "object") + " in " +
            text_of_seconds(std::chrono::duration<double>(holders.took).count());
  if (!holders.note.empty()) words += (words.empty() ? "" : "; ") + holders.note;
  return words;
}

}  // namespace memreel
