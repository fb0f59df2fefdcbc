// SPDX-License-Identifier: Apache-2.0
#include "formats/wire/schema.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace memreel::wire {

RowCounts row_counts(const Tables& tables) {
  RowCounts counts;
  for_each_table(tables,
                 [&](Table table, const auto& rows) { counts[table] = static_cast<std::uint32_t>(rows.size() - 1); });
  return counts;
}

std::string encode(const RowCounts& counts) {
  std::string message;
  protozero::pbf_writer writer(message);
  for (std::uint32_t i = 0; i < table_count; ++i)
    if (counts.count[i] != 0) writer.add_uint32(i + 1, counts.count[i]);
  return message;
}

void decode(std::string_view message, RowCounts& counts) {
  counts = {};
  protozero::pbf_reader reader(message.data(), message.size());
  while (reader.next()) {
    const std::uint32_t i = reader.tag() - 1;
    if (i < table_count && reader.wire_type() == protozero::pbf_wire_type::varint)
      counts.count[i] = reader.get_uint32();
    else
      reader.skip();
  }
}

}  // namespace memreel::wire
