// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/tlsf.h"

#include <algorithm>

#include "analyzer/engine/engine.h"
#include "analyzer/policies/parameters.h"

namespace memreel {

void TlsfPlacement::record_insert(std::uint32_t number, Bytes size) {
  Record& record = records_[number];
  if (size > record.largest) record = {.largest = size};
  if (size == record.largest) ++record.as_large;
}

void TlsfPlacement::record_erase(std::uint32_t number, Bytes size) {
  Record& record = records_[number];
  if (size == record.largest && --record.as_large == 0) rows_[row_of(number)].recorded ^= bit_of(column_of(number));
}

void TlsfPlacement::find_largest() {
  largest_ = {};
  if (occupied_rows_ == 0) return;
  const std::uint32_t row = highest_bit(occupied_rows_);
  const std::uint32_t column = highest_bit(rows_[row].occupied);
  const std::uint32_t number = (row << columns_log2_) + column;
  if ((rows_[row].recorded & bit_of(column)) == 0) {
    rows_[row].recorded |= bit_of(column);
    records_[number] = {};
    lists_.for_each(number, [&](BlockId id) { record_insert(number, table_[id].size); });
  }
  largest_ = records_[number].largest;
}

PolicyEntry tlsf_entry() {
  return {.info = {.name = "tlsf",
                   .description = "two-level segregated fit: one growing range, good fit in constant time",
                   .defaults = {{"classes", "32"}, {"align", "512"}, {"page", "2MiB"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto page = power_of_two_parameter(spec, "page", 64_KiB, 1_GiB);
            if (!page) return page.error();
            const auto align = power_of_two_parameter(spec, "align", 256_B, *page);
            if (!align) return align.error();
            const auto classes = parse_integer(spec.parameters.at("classes"));
            if (!classes || !std::has_single_bit(*classes) || *classes < 2 || *classes > 64)
              return bad_parameter(spec, "classes", "a power of two from 2 to 64");
            return BoundPolicy{
                .spec = spec,
                .unit = *page,
                .run = [settings = TlsfSettings{{.align = *align, .page = *page}, static_cast<unsigned>(*classes)}](
                           const Prepared& heap, const RunOptions& options) {
                  return run_policy<Tlsf>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
