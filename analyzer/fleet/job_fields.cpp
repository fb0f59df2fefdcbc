// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/job_fields.h"

#include <array>

#include "analyzer/replay/tune/search_space.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json size_or_null(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count) : Json(nullptr); }
Json metric(const FleetRow& row, Bytes bytes) { return row.summary.has_memory ? Json(bytes.count) : Json(nullptr); }

Json sizes_of(const std::vector<Bytes>& sizes) {
  Json json = Json::array();
  for (const Bytes size : sizes) json.push_back(size.count);
  return json;
}

Json rank_of(const Fleet& fleet, std::uint32_t row) { return fleet.rows[row].rank; }

Json ranks_in(const Fleet& fleet, const std::vector<std::uint32_t>& rows) {
  Json json = Json::array();
  for (const std::uint32_t row : rows) json.push_back(rank_of(fleet, row));
  return json;
}

Json ranks_that_get_worse(const Fleet& fleet, const CommonSetting& setting) {
  Json json = Json::array();
  for (const std::size_t i : setting.worse)
    for (const std::uint32_t row : fleet.classes[setting.classes[i].klass].rows) json.push_back(rank_of(fleet, row));
  return json;
}

Json outcomes_of(const Fleet& fleet, const ClassSettings& replayed) {
  Json json = Json::array();
  for (const SettingOutcome& outcome : replayed.outcomes)
    json.push_back(fleet_json(fleet, ReplayedSetting{replayed, outcome}));
  return json;
}

Json stack_of(const std::vector<CodeFrame>& frames) {
  Json json = Json::array();
  for (const CodeFrame& frame : frames)
    json.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
  return json;
}

std::string text_of_stack(const std::vector<CodeFrame>& frames) {
  std::string text;
  for (const CodeFrame& frame : frames)
    text += (text.empty() ? "" : ";") +
            text_of(FrameText{.function = frame.function, .file = frame.file, .line = frame.line});
  return text;
}

CodeFrame innermost(const RankSite& site) { return site.frames.empty() ? CodeFrame{} : site.frames.front(); }

Json mesh_of(const Identity& identity) {
  Json json = Json::object();
  for (const Coordinate& at : identity.coordinates) json[at.axis] = at.at;
  return json;
}

/// The most used one first, which the summary itself describes.
std::vector<RankDevice> devices_of(const RankSummary& s) {
  std::vector<RankDevice> devices = s.devices;
  if (s.has_memory && s.device >= 0)
    devices.insert(devices.begin(), {s.device, s.peak_reserved, s.other, s.beside, s.capacity});
  return devices;
}

Bytes leaked_on(const RankSummary& summary) {
  Bytes leaked;
  for (const RankLeak& leak : summary.leaks) leaked += leak.bytes;
  return leaked;
}

Nanoseconds time_of(const TimelineColumn& at) {
  const RankSummary& s = at.row.summary;
  const auto span = static_cast<std::uint64_t>((s.end - s.begin).count());
  return s.begin + Nanoseconds{static_cast<std::int64_t>(static_cast<double>(span) * static_cast<double>(at.column) /
                                                         static_cast<double>(at.columns))};
}

}  // namespace

// ---- The rows

template <>
std::span<const FleetField<FleetRow>> fleet_fields<FleetRow>() {
  using Row = FleetRow;
  static constexpr std::array<FleetField<Row>, 29> all{{
      {"rank", [](const Fleet&, const Row& row) -> Json { return row.rank; }, "The rank.", 1},
      {"rank_assumed", [](const Fleet&, const Row& row) -> Json { return row.rank_assumed; },
       "Whether it is the order of file names: nothing says the rank."},
      {"host", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.identity.host); },
       "Host; null: not known.", 2, ColumnOf::texts},
      {"local_rank", [](const Fleet&, const Row& row) -> Json { return or_null(row.summary.identity.local_rank); },
       "Rank among those on the host; null: not known.", 3},
      {"device",
       [](const Fleet&, const Row& row) -> Json {
         return row.summary.has_memory ? Json(row.summary.device) : Json(nullptr);
       },
       "CUDA ordinal of the device; null: the recording can't be judged.", 4},
      {"file", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.file); },
       "The recording; null: there is none.", 7, ColumnOf::texts},
      {"job", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.identity.job); },
       "Job; null: not known.", 5, ColumnOf::texts},
      {"attempt", [](const Fleet&, const Row& row) -> Json { return row.summary.identity.attempt; },
       "Which start of the job it is from."},
      {"mesh", [](const Fleet&, const Row& row) -> Json { return mesh_of(row.summary.identity); },
       "Coordinates by axis; empty: no mesh is known.", 6, ColumnOf::texts},
      {"class", [](const Fleet&, const Row& row) -> Json { return or_null(row.klass); },
       "Index in classes; null: not judged.", 10},
      {"peak_live_bytes", [](const Fleet&, const Row& row) -> Json { return metric(row, row.summary.peak_live); },
       "Peak of live bytes; null: the recording can't be judged [bytes].", 11},
      {"peak_allocated_bytes",
       [](const Fleet&, const Row& row) -> Json { return metric(row, row.summary.peak_allocated); },
       "Peak of allocated bytes; null: the recording can't be judged [bytes].", 12},
      {"peak_reserved_bytes",
       [](const Fleet&, const Row& row) -> Json { return metric(row, row.summary.peak_reserved); },
       "Peak of reserved bytes; null: the recording can't be judged [bytes].", 13},
      {"end_live_bytes", [](const Fleet&, const Row& row) -> Json { return metric(row, row.summary.end_live); },
       "Live at the end; null: the recording can't be judged [bytes].", 14},
      {"other_bytes", [](const Fleet&, const Row& row) -> Json { return metric(row, row.summary.other); },
       "What the process has from the driver beside the framework; 0 with --heap; null: the recording can't be judged "
       "[bytes].",
       15},
      {"beside_bytes", [](const Fleet&, const Row& row) -> Json { return metric(row, row.beside); },
       "Most in use beside the framework on the device that headroom_bytes is of: other_bytes or, without --capacity, "
       "what samples of the device show; null: the recording can't be judged [bytes]."},
      {"capacity_bytes", [](const Fleet&, const Row& row) -> Json { return size_or_null(row.summary.capacity); },
       "Memory of the device; null: not known [bytes].", 16},
      {"headroom_bytes", [](const Fleet&, const Row& row) -> Json { return or_null(row.headroom); },
       "Capacity less what is in use at the peak, on the tightest of its devices; null: the capacity is not known "
       "[bytes].",
       17},
      {"at_least", [](const Fleet&, const Row& row) -> Json { return row.judged() && row.at_least(); },
       "Whether the recording is incomplete, and its peaks lower bounds, its headroom an upper one: no frees are "
       "lost."},
      {"devices",
       [](const Fleet& fleet, const Row& row) -> Json { return fleet_json_of(fleet, devices_of(row.summary)); },
       "The process's GPUs, the most used one first."},
      {"shares_gpu_with", [](const Fleet&, const Row& row) -> Json { return row.shares; },
       "Ranks that use its GPU at the same time."},
      {"events", [](const Fleet&, const Row& row) -> Json { return row.summary.events; }, "Events in the recording.",
       19},
      {"failed_allocations", [](const Fleet&, const Row& row) -> Json { return row.summary.failed_allocations; },
       "Requests that failed.", 20},
      {"lost_events", [](const Fleet&, const Row& row) -> Json { return row.summary.lost_events; },
       "Events that the recording lacks.", 21},
      {"policy", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.policy); },
       "The recorded allocator with its settings; null: not known."},
      {"status", [](const Fleet&, const Row& row) -> Json { return name_of(row.summary.status); },
       "Whether the recording could be read.", 8, ColumnOf::texts},
      {"reason", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.reason); },
       "Why it is not ok, or why it can't be judged, e.g. that it lacks the heap asked for; null: it can.", 9,
       ColumnOf::texts},
      {"leaks_not_judged",
       [](const Fleet&, const Row& row) -> Json { return text_or_null(row.summary.leaks_not_judged); },
       "Why its leaks can't be judged, e.g. that it holds no steps; null: they are, if it is."},
      {"leaked_bytes",
       [](const Fleet&, const Row& row) -> Json {
         return row.summary.leaks_not_judged.empty() ? metric(row, leaked_on(row.summary)) : Json(nullptr);
       },
       "", 18},
  }};
  return all;
}

template <>
std::span<const FleetField<RankDevice>> fleet_fields<RankDevice>() {
  using Row = RankDevice;
  static constexpr std::array<FleetField<Row>, 4> all{{
      {"device", [](const Fleet&, const Row& row) -> Json { return row.device; }, "CUDA ordinal."},
      {"peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.peak_reserved.count; },
       "Peak of reserved bytes [bytes]."},
      {"other_bytes", [](const Fleet&, const Row& row) -> Json { return row.other.count; },
       "In use beside the framework [bytes]."},
      {"capacity_bytes", [](const Fleet&, const Row& row) -> Json { return size_or_null(row.capacity); },
       "Memory of the device; null: not known [bytes]."},
  }};
  return all;
}

template <>
std::span<const FleetField<Decision>> fleet_fields<Decision>() {
  using Row = Decision;
  static constexpr std::array<FleetField<Row>, 7> all{{
      {"rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.row); },
       "The rank that decides whether the job fits."},
      {"why", [](const Fleet&, const Row& row) -> Json { return row.why; }, "Why it does."},
      {"next", [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, row.next); }, "The next ten."},
      {"fails_first",
       [](const Fleet& fleet, const Row& row) -> Json {
         return row.fails_first ? fleet_json(fleet, FirstFailure{row}) : Json(nullptr);
       },
       "The rank that runs out of memory first; null: none."},
      {"failed", [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, row.failed); },
       "Ranks that had requests refused, the first to fail first."},
      {"near", [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, row.near); },
       "If any failed: other ranks that used 95 % of their device or more."},
      {"may_decide_instead", [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, row.unsure); },
       "Ranks that are known in part only, so that they may need more."},
  }};
  return all;
}

template <>
std::span<const FleetField<FirstFailure>> fleet_fields<FirstFailure>() {
  using Row = FirstFailure;
  static constexpr std::array<FleetField<Row>, 2> all{{
      {"rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, *row.decision.fails_first); },
       "The rank."},
      {"why", [](const Fleet&, const Row& row) -> Json { return row.decision.fails_why; }, "Why it fails."},
  }};
  return all;
}

template <>
std::span<const FleetField<RankClass>> fleet_fields<RankClass>() {
  using Row = RankClass;
  static constexpr std::array<FleetField<Row>, 4> all{{
      {"ranks", [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, row.rows); },
       "Ranks that make the same requests."},
      {"peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.peak_reserved.count; },
       "The highest peak of them [bytes]."},
      {"deviates_from", [](const Fleet&, const Row& row) -> Json { return or_null(row.deviates_from); },
       "Index of the class that it nearly is; null: none."},
      {"similarity",
       [](const Fleet&, const Row& row) -> Json { return row.deviates_from ? Json(row.similarity) : Json(nullptr); },
       "Share of requests that both make; null: it deviates from none."},
  }};
  return all;
}

template <>
std::span<const FleetField<Imbalance>> fleet_fields<Imbalance>() {
  using Row = Imbalance;
  static constexpr std::array<FleetField<Row>, 6> all{{
      {"max_over_mean", [](const Fleet&, const Row& row) -> Json { return row.max_over_mean; },
       "Highest peak of reserved bytes over the mean."},
      {"max_peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.max.count; },
       "The highest [bytes]."},
      {"p99_peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.p99.count; },
       "What 99 % of the ranks stay within [bytes]."},
      {"mean_peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.mean.count; },
       "The mean [bytes]."},
      {"median_peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.median.count; },
       "The median [bytes]."},
      {"axes", [](const Fleet& fleet, const Row& row) -> Json { return fleet_json_of(fleet, row.axes); },
       "One entry for each axis of the mesh."},
  }};
  return all;
}

template <>
std::span<const FleetField<AxisImbalance>> fleet_fields<AxisImbalance>() {
  using Row = AxisImbalance;
  static constexpr std::array<FleetField<Row>, 4> all{{
      {"axis", [](const Fleet&, const Row& row) -> Json { return row.axis; }, "Name of the axis."},
      {"max_over_mean", [](const Fleet&, const Row& row) -> Json { return row.max_over_mean; },
       "Highest mean over the mean of all."},
      {"share_of_variance", [](const Fleet&, const Row& row) -> Json { return row.share_of_variance; },
       "Share of the variance that the axis explains."},
      {"mean_peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return sizes_of(row.means); },
       "Mean of the peaks at each coordinate [bytes]."},
  }};
  return all;
}

template <>
std::span<const FleetField<Outlier>> fleet_fields<Outlier>() {
  using Row = Outlier;
  static constexpr std::array<FleetField<Row>, 5> all{{
      {"rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.row); }, "The rank."},
      {"why", [](const Fleet&, const Row& row) -> Json { return row.why; }, "What sets it apart."},
      {"bytes", [](const Fleet&, const Row& row) -> Json { return row.bytes; },
       "Its reserved peak less its neighbour's; negative: less [bytes]."},
      {"neighbour", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.neighbour); },
       "A rank of the class that it nearly is."},
      {"sites", [](const Fleet& fleet, const Row& row) -> Json { return fleet_json_of(fleet, row.sites); },
       "Call stacks that make the difference, largest first."},
  }};
  return all;
}

template <>
std::span<const FleetField<SiteDelta>> fleet_fields<SiteDelta>() {
  using Row = SiteDelta;
  static constexpr std::array<FleetField<Row>, 3> all{{
      {"bytes", [](const Fleet&, const Row& row) -> Json { return row.here.count; },
       "Live at the peak of this rank [bytes]."},
      {"neighbour_bytes", [](const Fleet&, const Row& row) -> Json { return row.there.count; },
       "Live at the peak of the neighbour [bytes]."},
      {"stack", [](const Fleet&, const Row& row) -> Json { return stack_of(row.frames); }, "Where it was allocated."},
  }};
  return all;
}

template <>
std::span<const FleetField<FleetLeak>> fleet_fields<FleetLeak>() {
  using Row = FleetLeak;
  static constexpr std::array<FleetField<Row>, 8> all{{
      {"rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.row); }, "The rank."},
      {"device",
       [](const Fleet& fleet, const Row& row) -> Json {
         return row.leak.device.value_or(fleet.rows[row.row].summary.device);
       },
       "CUDA ordinal of the device that it is on."},
      {"verdict", [](const Fleet&, const Row& row) -> Json { return row.leak.verdict; }, "How certain it is."},
      {"bytes", [](const Fleet&, const Row& row) -> Json { return row.leak.bytes.count; }, "Live at the end [bytes]."},
      {"count", [](const Fleet&, const Row& row) -> Json { return row.leak.count; }, "Allocations live at the end."},
      {"growth_bytes_per_step", [](const Fleet&, const Row& row) -> Json { return row.leak.growth_bytes_per_step; },
       "Its growth [bytes/step]."},
      {"steps", [](const Fleet&, const Row& row) -> Json { return row.leak.steps; }, "Steps that were judged."},
      {"stack", [](const Fleet&, const Row& row) -> Json { return stack_of(row.leak.frames); },
       "Where it was allocated."},
  }};
  return all;
}

template <>
std::span<const FleetField<FleetSite>> fleet_fields<FleetSite>() {
  using Row = FleetSite;
  static constexpr std::array<FleetField<Row>, 5> all{{
      {"bytes", [](const Fleet&, const Row& row) -> Json { return row.sum.count; }, "Sum over all ranks [bytes]."},
      {"max_bytes", [](const Fleet&, const Row& row) -> Json { return row.max.count; },
       "The most on one rank [bytes]."},
      {"max_rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.max_row); },
       "That rank."},
      {"ranks", [](const Fleet&, const Row& row) -> Json { return row.ranks; }, "Ranks that have it."},
      {"stack", [](const Fleet&, const Row& row) -> Json { return stack_of(row.frames); }, "Where it was allocated."},
  }};
  return all;
}

template <>
std::span<const FleetField<CommonSetting>> fleet_fields<CommonSetting>() {
  using Row = CommonSetting;
  static constexpr std::array<FleetField<Row>, 11> all{{
      {"recommended",
       [](const Fleet&, const Row& row) -> Json { return row.best ? Json(row.candidates[*row.best]) : Json(nullptr); },
       "The setting that suits all ranks; null: none helps."},
      {"export",
       [](const Fleet&, const Row& row) -> Json {
         return row.best ? Json(export_line(row.candidates[*row.best])) : Json(nullptr);
       },
       "The line for a shell that sets it; null: nothing to set."},
      {"why", [](const Fleet&, const Row& row) -> Json { return row.why; }, "The result in a sentence."},
      {"max_peak_reserved_bytes",
       [](const Fleet& fleet, const Row& row) -> Json {
         return fleet_json(fleet, PeakChange{row.peak_before, row.peak_after});
       },
       "The highest peak of all ranks [bytes]."},
      {"decider_peak_reserved_bytes",
       [](const Fleet& fleet, const Row& row) -> Json {
         return fleet_json(fleet, PeakChange{row.decider_before, row.decider_after});
       },
       "The peak of the deciding rank [bytes]."},
      {"ranks_not_replayed", [](const Fleet&, const Row& row) -> Json { return row.not_replayed; },
       "Ranks of classes that were not replayed."},
      {"ranks_spared", [](const Fleet&, const Row& row) -> Json { return row.spared; },
       "Of these, ranks that would decide neither way: no setting helps the ranks that decide, or they would leave "
       "more of their device even if they needed twice as much."},
      {"worse_ranks", [](const Fleet& fleet, const Row& row) -> Json { return ranks_that_get_worse(fleet, row); },
       "Ranks that need more with it."},
      {"per_class_max_peak_reserved_bytes",
       [](const Fleet&, const Row& row) -> Json { return row.peak_per_class.count; },
       "The highest peak with the best setting for each class [bytes]."},
      {"candidates", [](const Fleet&, const Row& row) -> Json { return row.candidates; },
       "Settings that were replayed on all classes."},
      {"classes", [](const Fleet& fleet, const Row& row) -> Json { return fleet_json_of(fleet, row.classes); },
       "One entry for each class that was replayed."},
  }};
  return all;
}

template <>
std::span<const FleetField<ClassSettings>> fleet_fields<ClassSettings>() {
  using Row = ClassSettings;
  static constexpr std::array<FleetField<Row>, 10> all{{
      {"ranks",
       [](const Fleet& fleet, const Row& row) -> Json { return ranks_in(fleet, fleet.classes[row.klass].rows); },
       "Ranks of the class."},
      {"replayed", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.row); },
       "The rank that was replayed."},
      {"recorded",
       [](const Fleet& fleet, const Row& row) -> Json {
         return fleet_json(fleet, ReplayedSetting{row, row.recorded});
       },
       "With the recorded settings."},
      {"outcomes", [](const Fleet& fleet, const Row& row) -> Json { return outcomes_of(fleet, row); },
       "With each candidate; where there are more than sixteen classes, for others than the heaviest only with the "
       "first ones."},
      {"allocations", [](const Fleet&, const Row& row) -> Json { return row.allocations; },
       "Allocations that were verified."},
      {"address_matches", [](const Fleet&, const Row& row) -> Json { return row.address_matches; },
       "Those that got the recorded address."},
      {"witness",
       [](const Fleet& fleet, const Row& row) -> Json {
         return row.witness ? rank_of(fleet, *row.witness) : Json(nullptr);
       },
       "Another rank of the class that was verified; null: none."},
      {"witness_allocations", [](const Fleet&, const Row& row) -> Json { return row.witness_allocations; },
       "Allocations of it that were verified."},
      {"witness_address_matches", [](const Fleet&, const Row& row) -> Json { return row.witness_matches; },
       "Those that got the recorded address."},
      {"problem", [](const Fleet&, const Row& row) -> Json { return text_or_null(row.problem); },
       "Why the class could not be replayed; null: it was."},
  }};
  return all;
}

template <>
std::span<const FleetField<ReplayedSetting>> fleet_fields<ReplayedSetting>() {
  using Row = ReplayedSetting;
  static constexpr std::array<FleetField<Row>, 10> all{{
      {"setting", [](const Fleet&, const Row& row) -> Json { return row.outcome.setting; },
       "As in PYTORCH_CUDA_ALLOC_CONF.", 4, ColumnOf::texts},
      {"peak_reserved_bytes", [](const Fleet&, const Row& row) -> Json { return row.outcome.peak_reserved.count; },
       "Peak of reserved bytes [bytes].", 6},
      {"late_start_most_bytes",
       [](const Fleet&, const Row& row) -> Json {
         return row.outcome.peak_most > row.outcome.peak_reserved ? Json(row.outcome.peak_most.count) : Json(nullptr);
       },
       "What it may be at most, if the recording began late; null: not more [bytes]."},
      {"failed_allocations", [](const Fleet&, const Row& row) -> Json { return row.outcome.failed_allocations; },
       "Requests that fail.", 7},
      {"driver_calls", [](const Fleet&, const Row& row) -> Json { return row.outcome.driver_calls; },
       "Calls of the driver.", 8},
      {"driver_seconds", [](const Fleet&, const Row& row) -> Json { return row.outcome.driver_seconds; },
       "What they cost on an H200 [s].", 9, ColumnOf::reals},
      {"class", [](const Fleet&, const Row& row) -> Json { return row.replayed.klass; }, "", 1},
      {"ranks",
       [](const Fleet& fleet, const Row& row) -> Json { return fleet.classes[row.replayed.klass].rows.size(); }, "", 2},
      {"replayed_rank", [](const Fleet& fleet, const Row& row) -> Json { return rank_of(fleet, row.replayed.row); }, "",
       3},
      {"recorded", [](const Fleet&, const Row& row) -> Json { return row.is_recorded() ? 1 : 0; }, "", 5},
  }};
  return all;
}

template <>
std::span<const FleetField<PeakChange>> fleet_fields<PeakChange>() {
  using Row = PeakChange;
  static constexpr std::array<FleetField<Row>, 2> all{{
      {"before", [](const Fleet&, const Row& row) -> Json { return size_or_null(row.before); }, "As recorded [bytes]."},
      {"after", [](const Fleet&, const Row& row) -> Json { return size_or_null(row.after); },
       "With the setting [bytes]."},
  }};
  return all;
}

template <>
std::span<const FleetField<SiteOnRank>> fleet_fields<SiteOnRank>() {
  using Row = SiteOnRank;
  static constexpr std::array<FleetField<Row>, 9> all{{
      {"rank", [](const Fleet&, const Row& row) -> Json { return row.rank; }, "", 1},
      {"site", [](const Fleet&, const Row& row) -> Json { return std::to_string(row.site.id); }, "", 2,
       ColumnOf::texts},
      {"peak_bytes", [](const Fleet&, const Row& row) -> Json { return row.site.at_peak.count; }, "", 3},
      {"end_bytes", [](const Fleet&, const Row& row) -> Json { return row.site.at_end.count; }, "", 4},
      {"count", [](const Fleet&, const Row& row) -> Json { return row.site.count_at_peak; }, "", 5},
      {"function", [](const Fleet&, const Row& row) -> Json { return innermost(row.site).function; }, "", 6,
       ColumnOf::texts},
      {"file", [](const Fleet&, const Row& row) -> Json { return innermost(row.site).file; }, "", 7, ColumnOf::texts},
      {"line", [](const Fleet&, const Row& row) -> Json { return innermost(row.site).line; }, "", 8},
      {"stack", [](const Fleet&, const Row& row) -> Json { return text_of_stack(row.site.frames); }, "", 9,
       ColumnOf::texts},
  }};
  return all;
}

template <>
std::span<const FleetField<TimelineColumn>> fleet_fields<TimelineColumn>() {
  using Row = TimelineColumn;
  static constexpr std::array<FleetField<Row>, 5> all{{
      {"rank", [](const Fleet&, const Row& row) -> Json { return row.row.rank; }, "", 1},
      {"column", [](const Fleet&, const Row& row) -> Json { return row.column; }, "", 2},
      {"time_ns", [](const Fleet&, const Row& row) -> Json { return time_of(row).count(); }, "", 3},
      {"reserved_bytes",
       [](const Fleet&, const Row& row) -> Json { return row.row.summary.reserved[row.column].count; }, "", 4},
      {"allocated_bytes",
       [](const Fleet&, const Row& row) -> Json { return row.row.summary.allocated[row.column].count; }, "", 5},
  }};
  return all;
}

}  // namespace memreel
