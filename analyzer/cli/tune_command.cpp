#include "analyzer/cli/tune_command.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/arguments.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/completed_input.h"
#include "analyzer/cli/input.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/implied_capacity.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/steps.h"
#include "analyzer/replay/verify_placement.h"

namespace memreel::cli {
namespace {

struct TuneArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string torch_version;
  std::string policy;
  std::string capacity;
  std::vector<std::string> allocators;
  std::vector<std::string> questions;
  std::size_t top = 10;
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

Exit run_tune(const TuneArguments& arguments) {
  Result<TuneOptions> options = options_of(arguments);
  if (!options) return fail(options.error());
  const Result<Trace> trace = open_completed(arguments.file, arguments.memory_limit, arguments.symbols);
  if (!trace) return fail(trace.error());
  const std::vector<Prepared> heaps = program_heaps(*trace);
  if (heaps.empty()) return fail({.what = "holds no allocations to replay", .where = arguments.file.string()});
  const Result<PolicySpec> baseline = baseline_of(*trace, heaps, arguments);
  if (!baseline) return fail(baseline.error());
  const Result<TorchRules> rules = torch_rules(*trace, heaps, arguments.torch_version);
  if (!rules) return fail(rules.error());
  std::vector<PolicySpec> ran_with{*baseline};
  if (!arguments.torch_version.empty()) ran_with.front().parameters.erase(std::string(TorchSettings::release_key));
  set_torch_rules(ran_with, *rules);
  set_torch_rules(options->allocators, *rules);
  add_default_question(heaps, *options);
  for (const CapacityBounds& bounds : capacity_bounds(*trace))
    options->sets_fraction |= bounds.by_program.value_or(false);

  std::vector<Tuned> tuned;
  const auto add = [&](const std::vector<Prepared>& of, const PolicySpec& policy,
                       TuneOptions how) -> std::optional<Error> {
    ProgressBar bar("replaying settings");
    how.on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    Result<TuneResult> result = tune(of, policy, how);
    if (!result) return std::move(result).error();
    Tuned& done = tuned.emplace_back();
    done = {.result = *std::move(result),
            .report = {.file = arguments.file, .top = arguments.top, .recorded = recorded_of(*trace, of)}};
    const Bytes recorded = done.report.recorded_peak();
    if (arguments.policy.empty() && misses_peak(trace->losses, done.result.baseline.peak_reserved(), recorded))
      done.result.missed_peak = recorded;
    return std::nullopt;
  };
  if (const auto error = add(heaps, ran_with.front(), *options)) return fail(*error);
  tuned.front().report.steps = find_steps(*trace, heaps.front().heap);
  tuned.front().report.rules = *rules;
  if (const std::vector<Prepared> pinned = pinned_memory_beside(*trace, heaps); !pinned.empty())
    if (const auto error = add(pinned, *recorded_policy(*trace, pinned.front()), {})) return fail(*error);
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
  command->add_option("--top", arguments->top, "How many settings to list in text [10]")->check(CLI::PositiveNumber);
  add_stack_options(*command, arguments->symbols);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.tune/1) instead of text");
  command->footer(
      "Settings are tried alone and combined. Every figure is a replay of this trace; a setting tuned to one program\n"
      "may not suit another.\n\n"
      "Examples:\n"
      "  memreel tune snapshot.pickle\n"
      "  memreel tune snapshot.pickle --capacity 24GiB\n"
      "  memreel tune run.reel --what-if empty_cache@step --what-if empty_cache@every:10\n"
      "  memreel tune run.reel --allocators fit.best,cuda.malloc\n"
      "  memreel tune run.reel --json | jq -r .recommended");
  command->callback([arguments, &exit] { exit = run_tune(*arguments); });
}

}  // namespace memreel::cli
