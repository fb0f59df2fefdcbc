// SPDX-License-Identifier: Apache-2.0
#include "formats/wire/schema.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace memreel::wire {

RowCounts row_counts(const Tables& tables) {
  const auto rows = [](const auto& table) { return static_cast<std::uint32_t>(table.size() - 1); };
  return {{rows(tables.strings), rows(tables.modules), rows(tables.frames), rows(tables.stacks), rows(tables.heaps),
           rows(tables.pools), rows(tables.streams), rows(tables.threads), rows(tables.origins), rows(tables.marks),
           rows(tables.settings)}};
}

std::string encode(const RowCounts& counts) {
  std::string message;
  protozero::pbf_writer writer(message);
  for (std::uint32_t i = 0; i < table_count; ++i)
    if (counts.count[i] != 0) writer.add_uint32(i + 1, counts.count[i]);
  return message;
}

RowCounts decode_row_counts(std::string_view message) {
  RowCounts counts;
  protozero::pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    const std::uint32_t i = reader.tag() - 1;
    if (i < table_count && reader.wire_type() == protozero::pbf_wire_type::varint)
      counts.count[i] = reader.get_uint32();
    else
      reader.skip();
  }
  return counts;
}

}  // namespace memreel::wire
