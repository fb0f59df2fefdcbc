// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/tune_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "analyzer/analysis/analysis.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/program.h"
#include "analyzer/cli/report.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/tune/search_space.h"
#include "analyzer/replay/verify.h"
#include "formats/command_line/option_values.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

struct TuneArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string torch_version;
  std::string policy;
  std::string capacity;
  std::string heap;
  std::vector<std::string> allocators;
  std::vector<std::string> questions;
  std::size_t top = 10;
  double seconds = most_replay_seconds;
  SymbolOptions symbols;
  bool json = false;
};

Result<TuneOptions> options_of(const TuneArguments& arguments) {
  TuneOptions options;
  Result<std::optional<DeviceModel>> device = parse_capacity(arguments.capacity);
  if (!device) return std::move(device).error();
  options.device = *device;
  Result<std::vector<PolicySpec>> allocators = parse_policy_lists(arguments.allocators);
  if (!allocators) return std::move(allocators).error();
  options.allocators = *std::move(allocators);
  for (const std::string& text : arguments.questions) {
    Result<WhatIf> question = parse_what_if(text);
    if (!question) {
      question.error().where = "--what-if";
      return std::move(question).error();
    }
    options.questions.push_back(*std::move(question));
  }
  return options;
}

/// The policy the program ran with.
Result<PolicySpec> baseline_of(const Trace& trace, const std::vector<Prepared>& heaps, const TuneArguments& arguments) {
  if (!arguments.policy.empty()) {
    Result<std::vector<PolicySpec>> specs = parse_policies(arguments.policy);
    if (!specs) return std::move(specs).error();
    if (specs->size() == 1) return specs->front();
    return Error{.what = "the program ran with one policy", .where = "--policy"};
  }
  if (is_pinned_memory(heaps.front())) return *recorded_policy(trace, heaps.front());
  if (const auto recorded = recorded_policy(trace, heaps)) return *recorded;
  if (const auto named = named_policy(trace, heaps)) return *named;
  return Error{.what = "this program did not use PyTorch's allocator",
               .where = arguments.file.string(),
               .remedy =
                   "name it with --policy, e.g. --policy cuda.malloc, and what to compare it with: --allocators "
                   "fit.best --what-if empty_cache@every:5000events"};
}

/// Adds a brief answer about empty_cache if no what-if was given.
void add_default_question(const std::vector<Prepared>& heaps, TuneOptions& options) {
  if (!options.questions.empty()) return;
  const auto calls = [](const Prepared& heap) { return empty_cache_calls(heap) > 0; };
  const auto steps = [](const Prepared& heap) { return !heap.step_ends.empty(); };
  if (std::ranges::any_of(heaps, calls))
    options.questions.push_back(*parse_what_if("no-empty_cache"));
  else if (std::ranges::all_of(heaps, steps))
    options.questions.push_back(*parse_what_if("empty_cache@step"));
}

std::vector<HeapHistory> recorded_of(const Trace& trace, const std::vector<Prepared>& heaps) {
  std::vector<HeapHistory> recorded;
  for (const HeapHistory& history : heap_histories(trace))
    for (const Prepared& heap : heaps)
      if (heap.heap == history.heap) recorded.push_back(history);
  return recorded;
}

/// Pinned host memory, which also has PyTorch settings; empty if it is already what is tuned.
std::vector<Prepared> pinned_memory_beside(const Trace& trace, const std::vector<Prepared>& heaps) {
  if (is_pinned_memory(heaps.front())) return {};
  return only_pinned_memory(prepare(trace));
}

bool has_capacity(const TuneOptions& options) {
  return options.device && options.device->kind == DeviceModel::Kind::capacity;
}

/// What others hold beside the heaps at once, at most.
Bytes most_beside(const TuneOptions& options) {
  Bytes most;
  if (!options.around) return most;
  for (const auto& [device, beside] : options.around->beside)
    for (const HeldFrom& from : beside) most = std::max(most, from.held);
  return most;
}

Exit run_tune(const TuneArguments& arguments) {
  Result<TuneOptions> options = options_of(arguments);
  if (!options) return fail(options.error());
  const Result<Trace> trace = open_completed(arguments.file, arguments.memory_limit, arguments.symbols);
  if (!trace) return fail(trace.error());
  std::vector<Prepared> heaps = arguments.heap.empty() ? program_heaps(*trace) : prepare(*trace);
  if (heaps.empty()) return fail({.what = "holds no allocations to replay", .where = arguments.file.string()});
  if (const Result<void> known = must_have_history(*trace, arguments.file); !known) return fail(known.error());
  if (const Result<void> left = leave_heap(trace->tables, arguments.heap, heaps); !left) return fail(left.error());
  if (arguments.heap.empty() && has_capacity(*options)) {
    options->around = surroundings_of(*trace, device_memory(*trace), heaps);
    options->around->beside.erase(-1);  // host memory
  }
  const Result<PolicySpec> baseline = baseline_of(*trace, heaps, arguments);
  if (!baseline) return fail(baseline.error());
  const Result<TorchRules> rules = torch_rules(*trace, heaps, arguments.torch_version);
  if (!rules) return fail(rules.error());
  std::vector<PolicySpec> ran_with{*baseline};
  if (!arguments.torch_version.empty()) ran_with.front().parameters.erase(std::string(TorchSettings::release_key));
  set_torch_rules(ran_with, *rules);
  set_torch_rules(options->allocators, *rules);
  const Analysis analysis(*trace);
  for (Prepared& heap : heaps) heap.step_ends = analysis.step_ends(heap);
  add_default_question(heaps, *options);
  const std::vector<CapacityBounds> bounds = capacity_bounds(*trace);
  for (const CapacityBounds& of : bounds) options->sets_fraction |= of.by_program.value_or(false);
  const bool is_only_bounded = !has_capacity(*options) && std::ranges::any_of(heaps, [&](const Prepared& heap) {
    const CapacityBounds& of = bounds[index(heap.heap)];
    return of.most && !of.stated && !of.by_device;
  });

  options->deadline = deadline_after(arguments.seconds);
  std::vector<Tuned> tuned;
  const auto add = [&](const std::vector<Prepared>& of, const PolicySpec& policy,
                       TuneOptions how) -> std::optional<Error> {
    ProgressBar bar("replaying settings");
    how.on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    Result<TuneResult> result = tune(of, policy, how);
    if (!result) return std::move(result).error();
    Tuned& done = tuned.emplace_back();
    done = {.result = *std::move(result),
            .report = {.file = arguments.file,
                       .top = arguments.top,
                       .seconds = arguments.seconds,
                       .recorded = recorded_of(*trace, of)}};
    const Bytes recorded = done.report.recorded_peak();
    const bool are_sampled = std::ranges::any_of(done.report.recorded, &HeapHistory::is_sampled);
    if (arguments.policy.empty() &&
        misses_peak(trace->losses.began_late || are_sampled, done.result.baseline.peak_reserved(), recorded)) {
      done.result.missed_peak = recorded;
      done.result.missed_samples = are_sampled;
    }
    if (done.result.missed_peak > 0_B && !are_sampled)
      done.report.released = saved_by_release(
          *trace, std::ranges::max_element(done.report.recorded, {}, &HeapHistory::peak_reserved)->heap);
    return std::nullopt;
  };
  if (const auto error = add(heaps, ran_with.front(), *options)) return fail(*error);
  tuned.front().report.steps = analysis.steps(heaps.front().heap);
  tuned.front().report.rules = *rules;
  tuned.front().report.is_only_bounded = is_only_bounded;
  if (has_capacity(*options)) tuned.front().report.beside = most_beside(*options);
  tuned.front().report.ignored = ignored_settings(heaps.front().settings);
  if (const std::vector<Prepared> pinned = pinned_memory_beside(*trace, heaps);
      arguments.heap.empty() && !pinned.empty())
    if (const auto error = add(pinned, *recorded_policy(*trace, pinned.front()), {.deadline = options->deadline}))
      return fail(*error);
  if (arguments.json)
    print_tune_json(*trace, tuned);
  else
    print_tune_text(*trace, tuned);
  return Exit::done;
}

}  // namespace

void add_tune_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("tune", "Find the PyTorch settings that need less memory");
  const auto arguments = std::make_shared<TuneArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  add_torch_version_option(*command, arguments->torch_version, "2.11");
  command->add_option(
      "--capacity", arguments->capacity,
      "Memory of the device, e.g. 24GiB, or unlimited: which settings fit? [implied by recorded failures, "
      "else unlimited]");
  command
      ->add_option("--what-if", arguments->questions,
                   "empty_cache@step, empty_cache@every:N (steps), empty_cache@every:Nevents, empty_cache@oom, "
                   "no-empty_cache, or a policy such as pool.exact; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--allocators", arguments->allocators,
                   "Policies to compare with PyTorch's settings, as in replay; repeatable, comma lists")
      ->allow_extra_args(false);
  command->add_option("--policy", arguments->policy, "Policy the program ran with [the recorded settings]");
  add_heap_option(*command, arguments->heap, "Tune", ", as if it had the device for itself");
  add_whole_number(*command, "--top", arguments->top, {1, any_count}, "How many settings to list in text [10]");
  add_seconds_option(*command, arguments->seconds);
  add_stack_options(*command, arguments->symbols);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.tune/1) instead of text");
  command->footer(
      "Settings are tried alone and combined. Every figure is a replay of this trace; a setting tuned to one program "
      "may not suit another.\n\n"
      "Examples:\n"
      "  memreel tune snapshot.pickle\n"
      "  memreel tune snapshot.pickle --capacity 24GiB\n"
      "  memreel tune run.reel --what-if empty_cache@step --what-if empty_cache@every:10\n"
      "  memreel tune run.reel --allocators fit.best,cuda.malloc\n"
      "  memreel tune run.reel --json | jq -r .recommended");
  command->callback([arguments, &exit] { exit = run_tune(*arguments); });
}

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
  return name_of_settings(conf_of(outcome.policy));
}

/// "-3.7 %": how a setting changes the peak.
std::string change(const Outcome& before, const Outcome& after) {
  const double saved = saved_share(before.peak_reserved(), after.peak_reserved());
  const std::string share = text_of_share(std::abs(saved));
  if (share == text_of_share(0)) return "0 %";
  return (saved > 0 ? "-" : "+") + share;
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
    std::cout << bold(heap_title(trace.tables, history.heap)) << ": " << counted(history.allocations, "allocation")
              << ", peak live " << text_of(history.peak_live) << '\n';
    if (history.peak_reserved != 0_B)
      std::cout << "  peak reserved as recorded " << text_of(history.peak_reserved) << '\n';
  }
  const DeviceModel& device = result.baseline.worst().device_model;
  const bool is_pinned_memory = result.baseline.worst().device < 0;
  if (report.rules.told) std::cout << "rules " << report.rules.text << '\n';
  if (result.limited)
    std::cout << "device memory " << (report.is_only_bounded ? "at most " : "") << text_of(device.capacity)
              << (report.is_only_bounded ? ", as a request was refused" : "")
              << (report.beside.value_or(0_B) > 0_B
                      ? ", with up to " + text_of(*report.beside) + " in use beside what is tuned, as recorded"
                      : "")
              << '\n';
  if (result.baseline.heaps.size() > 1) std::cout << "settings are ranked by the device with the highest peak\n";
  std::cout << wrapped(is_pinned_memory ? "reserved: at the peak; calls: cudaHostAlloc and cudaFreeHost"
                                        : "reserved: at the peak; calls, cost: of the driver, on an H200",
                       2)
            << '\n';
}

std::optional<std::pair<Bytes, Bytes>> wide_range_of(const Outcome& outcome) {
  return outcome.late ? outcome.late->wide() : std::nullopt;
}

/// What a recording that began late leaves open.
void print_late_start(const TuneResult& result) {
  std::string ranges;
  const auto add = [&](const std::string& name, const Outcome& outcome) {
    if (const auto range = wide_range_of(outcome))
      ranges += (ranges.empty() ? "" : ", ") + name + " " + text_of(range->first) + " to " + text_of(range->second);
  };
  add(name_of(result.baseline), result.baseline);
  for (const Outcome& outcome : result.settings) add(name_of(outcome), outcome);
  for (const Outcome& outcome : result.allocators) add(name_of(outcome), outcome);
  if (ranges.empty()) return;
  std::cout << wrapped(
      "replay from a late start: how much cached memory they would have held when it began, and where, "
      "is not known: " +
          ranges,
      2);
}

void print_recommendation(const Trace& trace, const TuneResult& result) {
  const Outcome* const best = result.recommended();
  if (best == nullptr) {
    std::cout << wrapped(verdict(result), 0);
    return;
  }
  const std::string conf = conf_of(best->policy);
  const bool on_windows = ran_on_windows(trace.tables);
  // An older release would stop at a setting that it does not have.
  const std::string release = needs_release(best->policy, result.precedes_rules);
  if (!release.empty() && !best->every_release) std::cout << "with PyTorch " << release << " or newer only:\n\n";
  std::cout << bold(on_windows ? "set PYTORCH_CUDA_ALLOC_CONF=" + conf : export_line(conf)) << "\n\n";
  std::string text = verdict(result) + " Driver calls: " + calls_and_cost_of(result.baseline) + " before, " +
                     calls_and_cost_of(*best) + " with it.";
  if (!release.empty() && best->every_release) text += " Requires PyTorch " + release + " or newer.";
  if (on_windows && conf.find("expandable_segments:True") != std::string::npos)
    text += " PyTorch ignored expandable_segments on Windows until July 2026: it warns where it still does.";
  std::cout << wrapped(text, 0);
  if (const std::string effects = side_effects_of(result.baseline.policy, best->policy); !effects.empty())
    std::cout << '\n' << wrapped("Side effects: " + effects, 0);
}

/// "empty_cache@step": "1,024 calls".
std::string label_of(const Alternative& alternative) {
  const WhatIf::Kind kind = alternative.question.kind;
  if (kind == WhatIf::Kind::policy || kind == WhatIf::Kind::empty_cache_at_oom) return alternative.question.text;
  return alternative.question.text + " (" + counted(alternative.calls, "call") + ")";
}

/// What a call of empty_cache costs, and whether it is worth it; empty for other questions.
std::string verdict_on_calls(const TuneResult& result, const Alternative& alternative, Bytes released) {
  const WhatIf::Kind kind = alternative.question.kind;
  if (kind == WhatIf::Kind::policy) return {};
  const Outcome& base = result.baseline;
  const Outcome& other = alternative.outcome;
  std::string text = alternative.question.text + ": ";
  if (result.missed_peak > 0_B)
    return text + "not known, as the replay does not reserve what was recorded" +
           (released > 0_B ? "; torch.cuda.empty_cache() once before it saves " + text_of(released) + "." : ".");
  if (kind == WhatIf::Kind::empty_cache_at_oom) {
    if (base.failures() == 0) return text + "nothing fails, so it is never called.";
    if (other.failures() == base.failures())
      return text + "useless: before a request fails, the allocator releases all it can anyway.";
    return text + counted(base.failures(), "failure") + " without it, " + text_of(other.failures()) + " with it.";
  }
  const bool removed = kind == WhatIf::Kind::no_empty_cache;
  const std::string worth = removed ? "the program's calls are worth it: " : "worth calling: ";
  const std::string not_worth = removed ? "the program's calls are not worth it: " : "not worth calling: ";
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
    text += worth + counted(without.failures(), "request") + (without.failures() == 1 ? " fails" : " fail") +
            " without it, " + text_of(with.failures()) + " with it";
  else if (result.limited)
    text += not_worth + (removed ? "they save no request" : "it saves no request");
  else if (saved >= peak_margin)
    text += worth + (removed ? "they lower the peak by " : "it lowers the peak by ") + text_of_share(saved);
  else if (saved <= -peak_margin)
    text += not_worth + (removed ? "they raise the peak by " : "it raises the peak by ") + text_of_share(-saved);
  else
    text += not_worth + (removed ? "they do not lower the peak" : "it does not lower the peak");
  const auto calls = static_cast<std::uint64_t>(std::lround(std::max(0.0, per_call(more_calls))));
  return text + "; each call costs " + counted(calls, "driver call") + ", " +
         text_of_seconds(std::max(0.0, per_call(more_seconds))) + ", plus the wait for the device.";
}

void print_alternatives(const TuneResult& result, const TuneReport& report) {
  if (result.alternatives.empty()) return;
  std::string title = "What if";
  if (const std::uint64_t steps = report.steps.ends.size(); steps > 0)
    title +=
        " (" + counted(steps, "step") + ", " + (report.steps.are_marked ? "marked by " : "") + report.steps.mark + ")";
  std::cout << '\n' << bold("What if") << wrapped(title, 0).substr(std::string_view("What if").size()) << '\n';
  Table table(result);
  table.add(result.baseline.late ? "replayed afresh" : "as recorded", result.baseline);
  for (const Alternative& alternative : result.alternatives) table.add(label_of(alternative), alternative.outcome);
  table.print();
  std::cout << '\n';
  for (const Alternative& alternative : result.alternatives)
    if (const std::string text = verdict_on_calls(result, alternative, report.released); !text.empty())
      std::cout << wrapped(text, 2);
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
  if (result.missed_samples) {  // what the settings in use need is recorded, and no replay is like it
    std::cout << wrapped(verdict(result), 0);
    return;
  }
  Table table(result);
  table.add(name_of(result.baseline) + " (in use)", result.baseline);
  table.add_rule();
  for (std::size_t i = 0; i < std::min(report.top, result.settings.size()); ++i)
    table.add(name_of(result.settings[i]) + release_mark(result.settings[i]), result.settings[i]);
  if (!result.allocators.empty() && !result.settings.empty()) table.add_rule();
  for (const Outcome& outcome : result.allocators) table.add(name_of(outcome), outcome);
  table.print();
  print_late_start(result);
  if (result.tried > 0 || result.left_out > 0 || result.least_unrounded_peak) {
    std::cout << "\n  " << counted(result.tried, "setting") << " tried";
    if (result.given_up > 0) std::cout << ", " << text_of(result.given_up) << " stopped early";
    if (result.left_out > 0)
      std::cout << "; " << text_of(result.left_out) << " left out when " << text_of_seconds(report.seconds)
                << " had passed (--seconds)";
    std::cout << "\n\n";
    print_recommendation(trace, result);
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

namespace {

Json json_of_device(const ReplayResult& r) {
  return {{"device", r.device},
          {"peak_live_bytes", r.peak_live.count},
          {"peak_reserved_bytes", r.peak_reserved.count},
          {"peak_reserved_event", r.peak_reserved_event},
          {"end_reserved_bytes", r.end_reserved.count},
          {"fragmentation_at_peak", r.fragmentation_at_peak},
          {"internal_waste", r.internal_waste},
          {"failed_allocations", r.failed_allocations},
          {"first_failure", json_of_failure(r.first_failure)},
          {"driver_calls", json_of_calls(r.driver_calls)}};
}

Json json_of_outcome(const Outcome& outcome, const TuneResult& result) {
  const ReplayResult& worst = outcome.worst();
  const DriverCalls calls = outcome.driver_calls();
  const auto range = wide_range_of(outcome);
  Json json{{"setting", has_settings(outcome.policy) ? Json(conf_of(outcome.policy)) : Json(nullptr)},
            {"policy", outcome.policy.name},
            {"params", outcome.policy.parameters},
            {"peak_live_bytes", worst.peak_live.count},
            {"peak_reserved_bytes", worst.peak_reserved.count},
            {"saved_bytes", static_cast<std::int64_t>(result.baseline.peak_reserved().count) -
                                static_cast<std::int64_t>(worst.peak_reserved.count)},
            {"saved_share", saved_share(result.baseline.peak_reserved(), worst.peak_reserved)},
            {"late_start_range_bytes", range ? Json({range->first.count, range->second.count}) : Json(nullptr)},
            {"end_reserved_bytes", worst.end_reserved.count},
            {"failed_allocations", outcome.failures()},
            {"first_failure", json_of_failure(outcome.first_failure())},
            {"min_capacity_bytes", outcome.min_capacity ? Json(outcome.min_capacity->count) : Json(nullptr)},
            {"driver_calls", json_of_calls(calls)},
            {"driver_seconds", outcome.driver_seconds()},
            {"device", worst.device},
            {"devices", Json::array()}};
  for (const ReplayResult& r : outcome.heaps) json["devices"].push_back(json_of_device(r));
  return json;
}

/// The findings for the heaps of one allocator.
Json findings_of(const TuneResult& result, const TuneReport& report) {
  Json baseline = json_of_outcome(result.baseline, result);
  baseline.erase("saved_bytes");
  baseline.erase("saved_share");
  const Bytes recorded = report.recorded_peak();
  baseline["recorded_peak_reserved_bytes"] = recorded == 0_B ? Json(nullptr) : Json(recorded.count);

  Json candidates = Json::array();
  for (const Outcome& outcome : result.settings) candidates.push_back(json_of_outcome(outcome, result));
  Json allocators = Json::array();
  for (const Outcome& outcome : result.allocators) allocators.push_back(json_of_outcome(outcome, result));
  Json alternatives = Json::array();
  for (const Alternative& alternative : result.alternatives) {
    Json json = json_of_outcome(alternative.outcome, result);
    json.erase("setting");
    Json entry{{"what_if", alternative.question.text}, {"empty_cache_calls", alternative.calls}};
    entry.update(json);
    alternatives.push_back(std::move(entry));
  }
  const Outcome* const best = result.recommended();
  const ReplayResult& base = result.baseline.worst();
  const bool limited = base.device_model.kind == DeviceModel::Kind::capacity;
  Json findings({{"capacity_bytes", limited ? Json(base.device_model.capacity.count) : Json(nullptr)},
                 {"beside_bytes", report.beside ? Json(report.beside->count) : Json(nullptr)},
                 {"steps", report.steps.ends.size()},
                 {"step_mark", report.steps.are_marked ? report.steps.mark : ""},
                 {"baseline", std::move(baseline)},
                 {"candidates", std::move(candidates)},
                 {"settings_tried", result.tried},
                 {"settings_given_up", result.given_up},
                 {"left_out", result.left_out},
                 {"stopped_by", result.left_out > 0 ? Json("seconds") : Json(nullptr)},
                 {"allocators", std::move(allocators)},
                 {"what_if", std::move(alternatives)},
                 {"recommended", best != nullptr ? Json(conf_of(best->policy)) : Json(nullptr)},
                 {"export", best != nullptr ? Json(export_line(conf_of(best->policy))) : Json(nullptr)},
                 {"verdict", verdict(result)}});
  return findings;
}

}  // namespace

void print_tune_json(const Trace& trace, std::span<const Tuned> tuned) {
  Json document(
      {{"schema", "memreel.tune/1"}, {"trace", tuned.front().report.file.string()}, {"losses", json_of_losses(trace)}});
  document.update(findings_of(tuned.front().result, tuned.front().report));
  document["settings_ignored"] = tuned.front().report.ignored;
  const TorchRules& rules = tuned.front().report.rules;
  if (!rules.text.empty()) document["torch_rules"] = rules.text;
  if (tuned.size() > 1) {
    const Tuned& pinned = tuned.back();
    Json findings = findings_of(pinned.result, pinned.report);
    for (const char* key : {"steps", "step_mark"}) findings.erase(key);
    const auto& least = pinned.result.least_unrounded_peak;
    findings["least_unrounded_peak_bytes"] = least ? Json(least->count) : Json(nullptr);
    document["pinned_memory"] = std::move(findings);
  }
  print_json(document);
}

}  // namespace memreel::cli
