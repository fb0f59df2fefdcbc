// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/tables.h"

#include <utility>

#include "formats/export/exporters.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// Columns built row by row, in the order in which the first row names them.
class TableBuilder {
 public:
  explicit TableBuilder(std::vector<ParquetColumn> columns) : columns_(std::move(columns)) {}

  TableBuilder& add(std::optional<std::int64_t> value) { return push<ParquetColumn::Integers>(value); }
  TableBuilder& add(Bytes value) { return add(static_cast<std::int64_t>(value.count)); }
  TableBuilder& count(std::uint64_t value) { return add(static_cast<std::int64_t>(value)); }
  TableBuilder& size(const std::optional<Bytes>& value) {
    return add(value ? std::optional(static_cast<std::int64_t>(value->count)) : std::nullopt);
  }
  TableBuilder& real(double value) { return push<ParquetColumn::Reals>(std::optional(value)); }
  /// Empty strings become nulls.
  TableBuilder& text(const std::string& value) {
    return push<ParquetColumn::Texts>(value.empty() ? std::nullopt : std::optional(value));
  }

  std::string file() const { return parquet_file(columns_); }

 private:
  template <class Values, class Value>
  TableBuilder& push(Value value) {
    std::get<Values>(columns_[next_].values).push_back(std::move(value));
    next_ = (next_ + 1) % columns_.size();
    return *this;
  }

  std::vector<ParquetColumn> columns_;
  std::size_t next_ = 0;
};

ParquetColumn integer(const char* name) { return {name, ParquetColumn::Integers{}}; }
ParquetColumn real(const char* name) { return {name, ParquetColumn::Reals{}}; }
ParquetColumn text(const char* name) { return {name, ParquetColumn::Texts{}}; }

std::optional<std::int64_t> number(const std::optional<std::uint32_t>& value) {
  return value ? std::optional<std::int64_t>(*value) : std::nullopt;
}

std::string stack_text(const std::vector<CodeFrame>& frames) {
  std::string text;
  for (const CodeFrame& frame : frames)
    text += (text.empty() ? "" : ";") +
            text_of(FrameText{.function = frame.function, .file = frame.file, .line = frame.line});
  return text;
}

std::string mesh_text(const Identity& identity) {
  std::string text;
  for (const Coordinate& at : identity.coordinates)
    text += (text.empty() ? "" : ",") + at.axis + "=" + std::to_string(at.at);
  return text;
}

std::string ranks_table(const Fleet& fleet) {
  TableBuilder table({integer("rank"),
                      text("host"),
                      integer("local_rank"),
                      integer("device"),
                      text("job"),
                      text("mesh"),
                      text("file"),
                      text("status"),
                      text("reason"),
                      integer("class"),
                      integer("peak_live_bytes"),
                      integer("peak_allocated_bytes"),
                      integer("peak_reserved_bytes"),
                      integer("end_live_bytes"),
                      integer("other_bytes"),
                      integer("capacity_bytes"),
                      integer("headroom_bytes"),
                      integer("leaked_bytes"),
                      integer("events"),
                      integer("failed_allocations"),
                      integer("lost_events")});
  for (const FleetRow& row : fleet.rows) {
    const RankSummary& s = row.summary;
    const auto metric = [&](Bytes bytes) { return s.has_memory ? std::optional(bytes) : std::nullopt; };
    Bytes leaked;
    for (const RankLeak& leak : s.leaks) leaked += leak.bytes;
    table.count(row.rank).text(s.identity.host).add(number(s.identity.local_rank));
    table.add(s.has_memory ? std::optional<std::int64_t>(s.device) : std::nullopt);
    table.text(s.identity.job).text(mesh_text(s.identity)).text(s.file).text(std::string(name_of(s.status)));
    table.text(s.reason).add(number(row.klass));
    table.size(metric(s.peak_live)).size(metric(s.peak_allocated)).size(metric(s.peak_reserved));
    table.size(metric(s.end_live)).size(metric(s.other)).size(s.capacity).add(row.headroom).size(metric(leaked));
    table.count(s.events).count(s.failed_allocations).count(s.lost_events);
  }
  return table.file();
}

std::string settings_table(const Fleet& fleet, const CommonSetting* setting) {
  TableBuilder table({integer("class"), integer("ranks"), integer("replayed_rank"), text("setting"),
                      integer("recorded"), integer("peak_reserved_bytes"), integer("failed_allocations"),
                      integer("driver_calls"), real("driver_seconds")});
  if (setting == nullptr) return table.file();
  for (const ClassSettings& c : setting->classes) {
    if (!c.problem.empty()) continue;
    const auto add = [&](const SettingOutcome& o, bool recorded) {
      table.count(c.klass).count(fleet.classes[c.klass].rows.size()).count(fleet.rows[c.row].rank).text(o.setting);
      table.count(recorded ? 1 : 0).add(o.peak_reserved).count(o.failed_allocations).count(o.driver_calls);
      table.real(o.driver_seconds);
    };
    add(c.recorded, true);
    for (const SettingOutcome& outcome : c.outcomes) add(outcome, false);
  }
  return table.file();
}

std::string sites_table(const Fleet& fleet) {
  TableBuilder table({integer("rank"), text("site"), integer("peak_bytes"), integer("end_bytes"), integer("count"),
                      text("function"), text("file"), integer("line"), text("stack")});
  for (const FleetRow& row : fleet.rows) {
    if (!row.judged()) continue;
    for (const RankSite& site : row.summary.sites) {
      const CodeFrame inner = site.frames.empty() ? CodeFrame{} : site.frames.front();
      table.count(row.rank).text(std::to_string(site.id)).add(site.at_peak).add(site.at_end).count(site.count_at_peak);
      table.text(inner.function).text(inner.file).count(inner.line).text(stack_text(site.frames));
    }
  }
  return table.file();
}

std::string timeline_table(const Fleet& fleet) {
  TableBuilder table(
      {integer("rank"), integer("column"), integer("time_ns"), integer("reserved_bytes"), integer("allocated_bytes")});
  for (const FleetRow& row : fleet.rows) {
    if (!row.judged()) continue;
    const RankSummary& s = row.summary;
    const std::size_t columns = std::min(s.reserved.size(), s.allocated.size());
    const auto span = static_cast<std::uint64_t>((s.end - s.begin).count());
    for (std::size_t i = 0; i < columns; ++i) {
      const auto since =
          static_cast<std::int64_t>(static_cast<double>(span) * static_cast<double>(i) / static_cast<double>(columns));
      table.count(row.rank).count(i).add(s.begin.count() + since).add(s.reserved[i]).add(s.allocated[i]);
    }
  }
  return table.file();
}

}  // namespace

std::vector<FleetTable> fleet_tables(const Fleet& fleet, const CommonSetting* setting) {
  return {{"ranks.parquet", ranks_table(fleet)},
          {"settings.parquet", settings_table(fleet, setting)},
          {"sites.parquet", sites_table(fleet)},
          {"timeline.parquet", timeline_table(fleet)}};
}

}  // namespace memreel
