#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>

#include "analyzer/cli/console.h"
#include "analyzer/cli/insight_text.h"
#include "analyzer/cli/tune_command.h"
#include "analyzer/report/text_table.h"
#include "analyzer/tune/search_space.h"
#include "analyzer/tune/setting_facts.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

std::string calls_of(const Outcome& outcome) { return text_of(count_of(outcome.driver_calls())); }
/// The cost of page-locking depends on the host.
std::string cost_of(const Outcome& outcome) {
  return outcome.worst().device < 0 ? "" : text_of_seconds(outcome.driver_seconds());
}
std::string calls_and_cost_of(const Outcome& outcome) {
  const std::string cost = cost_of(outcome);
  return calls_of(outcome) + (cost.empty() ? "" : " (" + cost + ")");
}

std::string name_of(const Outcome& outcome) {
  if (!has_settings(outcome.policy)) return outcome.policy.name;
  const std::string conf = conf_of(outcome.policy);
  return conf.empty() ? "PyTorch's defaults" : conf;
}

/// "-3.7 %": how a setting changes the peak.
std::string change(const Outcome& before, const Outcome& after) {
  const double saved = saved_share(before.peak_reserved(), after.peak_reserved());
  if (saved == 0) return "0 %";
  return (saved > 0 ? "-" : "+") + text_of_share(saved > 0 ? saved : -saved);
}

class Table {
 public:
  explicit Table(const TuneResult& result) : result_(result), table_(columns(result.limited)) {}

  void add(std::string name, const Outcome& outcome) {
    std::vector<std::string> row{text_of(outcome.peak_reserved()),
                                 &outcome == &result_.baseline ? "" : change(result_.baseline, outcome),
                                 calls_of(outcome), cost_of(outcome)};
    if (result_.limited) {
      row.push_back(outcome.min_capacity ? text_of(*outcome.min_capacity) : "");
      row.push_back(text_of(outcome.failures()));
    }
    row.push_back(std::move(name));
    table_.add_row(std::move(row));
  }
  void add_rule() { table_.add_rule(); }
  void print() const { table_.print(std::cout, 2); }

 private:
  static std::vector<TableColumn> columns(bool limited) {
    std::vector<TableColumn> columns{
        {"reserved", Align::right}, {"change", Align::right}, {"calls", Align::right}, {"cost", Align::right}};
    if (limited) {
      columns.push_back({"fits in", Align::right});
      columns.push_back({"failed", Align::right});
    }
    columns.push_back({"setting"});  // last, because it may be long
    return columns;
  }

  const TuneResult& result_;
  TextTable table_;
};

void print_heading(const Trace& trace, const TuneResult& result, const TuneReport& report) {
  for (const HeapHistory& history : report.recorded) {
    std::cout << bold(heap_title(trace.tables, history.heap)) << ": " << text_of(history.allocations)
              << " allocations, peak live " << text_of(history.peak_live) << '\n';
    if (history.peak_reserved != 0_B)
      std::cout << "  peak reserved as recorded " << text_of(history.peak_reserved) << '\n';
  }
  const DeviceModel& device = result.baseline.worst().device_model;
  const bool is_pinned_memory = result.baseline.worst().device < 0;
  if (report.rules.told) std::cout << "rules " << report.rules.text << '\n';
  if (result.limited) std::cout << "device memory " << text_of(device.capacity) << '\n';
  if (result.baseline.heaps.size() > 1) std::cout << "settings are ranked by the device with the highest peak\n";
  std::cout << (is_pinned_memory ? "  reserved: at the peak; calls: cudaHostAlloc and cudaFreeHost\n\n"
                                 : "  reserved: at the peak; calls, cost: of the driver, on an H200\n\n");
}

void print_recommendation(const TuneResult& result) {
  const Outcome* const best = result.recommended();
  if (best == nullptr) {
    std::cout << wrapped(verdict(result), 0);
    return;
  }
  std::cout << bold(export_line(conf_of(best->policy))) << "\n\n";
  std::string text = verdict(result) + " Driver calls: " + calls_and_cost_of(result.baseline) + " before, " +
                     calls_and_cost_of(*best) + " with it.";
  if (const std::string release = needs_release(best->policy); !release.empty())
    text += " Requires PyTorch " + release + " or newer.";
  std::cout << wrapped(text, 0);
  if (const std::string effects = side_effects_of(result.baseline.policy, best->policy); !effects.empty())
    std::cout << '\n' << wrapped("Side effects: " + effects, 0);
}

/// "empty_cache@step": "1,024 calls".
std::string label_of(const Alternative& alternative) {
  const WhatIf::Kind kind = alternative.question.kind;
  if (kind == WhatIf::Kind::policy || kind == WhatIf::Kind::empty_cache_at_oom) return alternative.question.text;
  return alternative.question.text + " (" + text_of(std::uint64_t{alternative.calls}) +
         (alternative.calls == 1 ? " call)" : " calls)");
}

/// What a call of empty_cache costs, and whether it is worth it; empty for other questions.
std::string verdict_on_calls(const TuneResult& result, const Alternative& alternative) {
  const WhatIf::Kind kind = alternative.question.kind;
  if (kind == WhatIf::Kind::policy) return {};
  const Outcome& base = result.baseline;
  const Outcome& other = alternative.outcome;
  std::string text = alternative.question.text + ": ";
  if (kind == WhatIf::Kind::empty_cache_at_oom) {
    if (base.failures() == 0) return text + "nothing fails, so it is never called.";
    if (other.failures() == base.failures())
      return text + "useless: before a request fails, the allocator releases all it can anyway.";
    return text + text_of(base.failures()) + " failures without it, " + text_of(other.failures()) + " with it.";
  }
  const bool removed = kind == WhatIf::Kind::no_empty_cache;
  const Outcome& with = removed ? base : other;
  const Outcome& without = removed ? other : base;
  if (alternative.calls == 0)
    return text + (removed ? "the program does not call it." : "the program ends before the first call.");
  const auto per_call = [&](double more) { return more / static_cast<double>(alternative.calls); };
  const double more_calls =
      static_cast<double>(count_of(with.driver_calls())) - static_cast<double>(count_of(without.driver_calls()));
  const double more_seconds = with.driver_seconds() - without.driver_seconds();
  const double saved = saved_share(without.peak_reserved(), with.peak_reserved());
  if (with.failures() < without.failures())
    text += "worth calling: " + text_of(without.failures()) + " requests fail without it, " + text_of(with.failures()) +
            " with it";
  else if (result.limited)
    text += "not worth calling: it saves no request";
  else if (saved >= peak_margin)
    text += "worth calling: it lowers the peak by " + text_of_share(saved);
  else if (saved <= -peak_margin)
    text += "not worth calling: it raises the peak by " + text_of_share(-saved);
  else
    text += "not worth calling: it does not lower the peak";
  const auto calls = static_cast<std::uint64_t>(std::lround(std::max(0.0, per_call(more_calls))));
  return text + "; each call costs " + text_of(calls) + (calls == 1 ? " driver call, " : " driver calls, ") +
         text_of_seconds(std::max(0.0, per_call(more_seconds))) + ", plus the wait for the device.";
}

void print_alternatives(const TuneResult& result, const TuneReport& report) {
  if (result.alternatives.empty()) return;
  std::cout << '\n' << bold("What if");
  if (!report.steps.mark.empty())
    std::cout << " (" << text_of(std::uint64_t{report.steps.ends.size()}) << " steps, marked by " << report.steps.mark
              << ")";
  std::cout << "\n\n";
  Table table(result);
  table.add("as recorded", result.baseline);
  for (const Alternative& alternative : result.alternatives) table.add(label_of(alternative), alternative.outcome);
  table.print();
  std::cout << '\n';
  for (const Alternative& alternative : result.alternatives)
    if (const std::string text = verdict_on_calls(result, alternative); !text.empty()) std::cout << wrapped(text, 2);
}

}  // namespace

Bytes TuneReport::recorded_peak() const {
  Bytes peak;
  for (const HeapHistory& history : recorded) peak = std::max(peak, history.peak_reserved);
  return peak;
}

namespace {

void print_tuned(const Trace& trace, const TuneResult& result, const TuneReport& report) {
  print_heading(trace, result, report);
  Table table(result);
  table.add(name_of(result.baseline) + " (in use)", result.baseline);
  table.add_rule();
  for (std::size_t i = 0; i < std::min(report.top, result.settings.size()); ++i)
    table.add(name_of(result.settings[i]), result.settings[i]);
  if (!result.allocators.empty() && !result.settings.empty()) table.add_rule();
  for (const Outcome& outcome : result.allocators) table.add(name_of(outcome), outcome);
  table.print();
  if (result.tried > 0 || result.least_unrounded_peak) {
    std::cout << "\n  " << text_of(result.tried) << " settings tried";
    if (result.given_up > 0) std::cout << ", " << text_of(result.given_up) << " stopped early";
    std::cout << "\n\n";
    print_recommendation(result);
  }
  print_alternatives(result, report);
}

}  // namespace

void print_tune_text(const Trace& trace, std::span<const Tuned> tuned) {
  for (const Tuned& each : tuned) {
    if (&each != &tuned.front()) std::cout << '\n';
    print_tuned(trace, each.result, each.report);
  }
}

}  // namespace memreel::cli
