// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/verdict_strip.h"

#include <algorithm>
#include <array>

#include "analyzer/describe/live_groups.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

std::optional<Category> category_called(std::string_view words) {
  for (std::size_t c = 0; c < category_count; ++c)
    if (words_of(static_cast<Category>(c)) == words) return static_cast<Category>(c);
  return std::nullopt;
}

/// The stack of the request that failed at `event`.
std::optional<StackId> failed_stack(const Document& document, std::uint64_t event) {
  const ColumnView<std::uint32_t>& rows = document.columns.failure;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (document.columns.other[rows[i]].at == event) return document.trace->events.stack(event);
  return std::nullopt;
}

/// The largest suspect.
const LeakFinding* first_leak(const LeakReport& report) {
  const bool any = !report.findings.empty() && accuses(report.findings.front().verdict);
  return any ? &report.findings.front() : nullptr;
}

class Builder {
 public:
  Builder(const Document& document, const Findings& findings)
      : document_(document), findings_(findings), verdict_(findings.verdict) {}

  VerdictStrip build() {
    const std::vector<VerdictLine> lines = lines_of(verdict_);
    VerdictStrip strip{.decides = decision_of(verdict_)};
    // Of fragmentation there may be no line, for want of room.
    if (std::ranges::none_of(lines, [&](const VerdictLine& line) { return is_headline(line, strip.decides); }))
      strip.decides = verdict_.is_instant ? Decision::instant : Decision::peak;
    for (const VerdictLine& line : lines) {
      // The holders say that in full, unless it is about the device as a whole.
      if (line.topic == "held by" && !verdict_.device) continue;
      VerdictItem item = item_of(line);
      if (line.topic == "set" || line.topic == "use") {
        add_advice(strip, std::move(item));
      } else if (is_headline(line, strip.decides)) {
        item.name = "decides";
        item.topic = name_of(strip.decides);
        strip.headline = std::move(item);
      } else {
        strip.others.push_back(std::move(item));
      }
    }
    add_holders(strip);
    return strip;
  }

 private:
  static bool is_headline(const VerdictLine& line, Decision decides) {
    switch (decides) {
      case Decision::out_of_memory:
        return line.topic == "OOM";
      case Decision::leak:
        return line.topic == "leaks";
      case Decision::fragmentation:
        return line.topic == "fragmented";
      case Decision::peak:
      case Decision::instant:
        break;
    }
    return line.topic == "peak" || line.topic == "instant";
  }

  std::optional<std::uint32_t> after(std::uint64_t event) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(event + 1, document_.event_count()));
  }

  VerdictItem item_of(const VerdictLine& line) const {
    VerdictItem item{.name = line.topic, .topic = line.topic, .text = line.text, .alarm = line.alarm, .to = {}};
    if (verdict_.decides) item.to = {.heap = verdict_.decides->heap, .cursor = after(verdict_.decides->peak_event)};
    if (line.topic == "OOM" && !findings_.ooms.examined.empty()) {
      const OutOfMemory& first = findings_.ooms.examined.front();
      item.to = {.heap = first.heap,
                 .cursor = after(first.event),
                 .stack = failed_stack(document_, first.event),
                 .tab = "oom"};
    } else if (line.topic == "leaks") {
      item.to.tab = "leaks";
      if (const LeakFinding* const leak = first_leak(findings_.leaks))
        item.to = {.heap = leak->heap, .cursor = document_.event_count(), .stack = leak->stack, .tab = "leaks"};
    } else if (line.topic == "fragmented") {
      item.to.tab = "fragmentation";
      const auto failure = std::ranges::find(findings_.ooms.examined, OomVerdict::fragmentation, &OutOfMemory::verdict);
      if (failure != findings_.ooms.examined.end())
        item.to = {.heap = failure->heap,
                   .cursor = after(failure->event),
                   .stack = failed_stack(document_, failure->event),
                   .tab = "oom"};
    }
    return item;
  }

  void add_holders(VerdictStrip& strip) const {
    if (!verdict_.holders || !verdict_.decides) return;
    const Holders& holders = *verdict_.holders;
    strip.held = holders.total;
    strip.held_text = text_of(holders.total) + (verdict_.is_instant ? " live:" : " live at the peak:");
    const HeapSeries* const series = document_.series(verdict_.decides->heap);
    for (const Holder& holder : holders.parts) {
      const double share = share_of(holder.bytes, holders.total);
      if (strip.holders.size() == VerdictStrip::most_holders || (!strip.holders.empty() && share < 0.01)) break;
      const std::string brief = holder.label + " " + text_of(holder.bytes) + ", " + text_of_share(share) +
                                (holder.by_size ? " (by their sizes)" : "");
      const bool has_place = !holder.mostly.empty() && !holder.mostly.starts_with(preexisting_frame);
      VerdictItem item{.name = "holder " + std::to_string(strip.holders.size() + 1),
                       .topic = {},
                       .text = brief + (has_place ? ", most at " + holder.mostly : ""),
                       .brief = brief,
                       .to = {}};
      if (holders.by == "category") item.category = category_called(holder.label);
      item.to = {.heap = verdict_.decides->heap, .category = item.category, .tab = item.category ? "" : "stacks"};
      if (series != nullptr) item.to.cursor = series->peak_live_event;
      strip.holders.push_back(std::move(item));
    }
  }

  /// To set something, or to give the cache back, which no replay shows.
  void add_advice(VerdictStrip& strip, VerdictItem item) const {
    item.name = "setting";
    item.to = {.tab = "fragmentation"};
    const bool is_setting = verdict_.setting && item.topic == (verdict_.setting->is_torch ? "set" : "use");
    if (is_setting)
      add_setting(strip, *verdict_.setting, std::move(item));
    else
      strip.offer = {.item = std::move(item), .export_line = {}, .policy = {}};
  }

  /// "reserved peak 6.02 GiB -> 5.80 GiB"; empty where one figure would say too much: of a range, or of a replay that
  /// other requests fail in.
  std::string peaks_with(const Verdict::Setting& setting) const {
    const bool is_range = setting.late_range && setting.late_range->first < setting.late_range->second;
    if (setting.reach || is_range || setting.failed_before > 0 || !verdict_.decides) return {};
    const std::string before = text_of(findings_.remedies.baseline_peak);
    const bool is_recorded = before == text_of(verdict_.decides->peak_reserved);
    return (is_recorded ? "reserved peak " : "replayed peak ") + before + " \u2192 " + text_of(setting.peak);
  }

  void add_setting(VerdictStrip& strip, const Verdict::Setting& setting, VerdictItem item) const {
    if (setting.text.empty()) {
      strip.no_offer = std::move(item);
      return;
    }
    if (const std::string peaks = peaks_with(setting); !peaks.empty()) {
      item.brief = item.text;
      item.text += "; " + peaks;
    }
    SettingOffer offer{.item = std::move(item), .export_line = {}, .policy = {}};
    const std::vector<Remedy>& tried = findings_.remedies.tried;
    const auto remedy = std::ranges::find(tried, setting.text, &Remedy::text);
    if (remedy != tried.end()) offer.policy = remedy->outcome.policy.text();
    if (setting.is_torch && remedy != tried.end()) offer.export_line = export_line(conf_of(remedy->outcome.policy));
    strip.offer = std::move(offer);
  }

  const Document& document_;
  const Findings& findings_;
  const Verdict& verdict_;
};

}  // namespace

std::string_view name_of(Decision decision) {
  constexpr std::array<std::string_view, 5> names{"out of memory", "leak", "fragmentation", "peak", "instant"};
  return names.at(static_cast<std::size_t>(decision));
}

Decision decision_of(const Verdict& verdict) {
  if (verdict.decides && verdict.decides->failed > 0) return Decision::out_of_memory;
  if (verdict.leaks && verdict.leaks->bytes > 0_B) return Decision::leak;
  const auto& setting = verdict.setting;
  const bool is_fragmented = verdict.fragmentation && setting && !setting->text.empty() &&
                             share_of(setting->saved, setting->peak + setting->saved) >= decisive_share;
  return is_fragmented ? Decision::fragmentation : verdict.is_instant ? Decision::instant : Decision::peak;
}

VerdictStrip verdict_strip(const Document& document, const Findings& findings) {
  return Builder(document, findings).build();
}

}  // namespace memreel::viewer
