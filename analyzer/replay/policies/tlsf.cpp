// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/tlsf.h"

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

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
                   .parameters = {{"classes", "32", AllowedValues::power_of_two_number(2, 64),
                                   "size classes in each doubling"},
                                  {"align", "512", AllowedValues::power_of_two(256_B, 1_GiB),
                                   "addresses and sizes are multiples of it; at most `page`"},
                                  {"page", "2MiB", AllowedValues::power_of_two(64_KiB, 1_GiB),
                                   "what the range grows by a multiple of"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const Bytes page = size_of(spec, "page");
            const auto align = size_within(spec, "align", 256_B, page);
            if (!align) return align.error();
            return BoundPolicy{.spec = spec,
                               .unit = page,
                               .run = [settings = TlsfSettings{{.align = *align, .page = page},
                                                               static_cast<unsigned>(number_of(spec, "classes"))}](
                                          const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Tlsf>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
