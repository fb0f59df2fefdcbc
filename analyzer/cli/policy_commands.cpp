// SPDX-License-Identifier: Apache-2.0
// `memreel policies`, `verify` and `demo`: what can be replayed, how exactly, and an example.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/describe/fields.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/verify.h"
#include "formats/model/files.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel {

template <>
struct FieldsOf<Parameter> {
  static const std::array<ResultField<Parameter>, 4> all;
};

const std::array<ResultField<Parameter>, 4> FieldsOf<Parameter>::all{{
    {"name", "parameter", Unit::text, "Its name in a policy's braces",
     [](const Tables&, const Parameter& row) -> Cell { return row.name; }},
    {"default", "default", Unit::text, "Its value unless one is given",
     [](const Tables&, const Parameter& row) -> Cell { return row.initial; }},
    {"values", "values", Unit::text, "What it may be",
     [](const Tables&, const Parameter& row) -> Cell { return row.values.text; }},
    {"meaning", "meaning", Unit::text, "What it does",
     [](const Tables&, const Parameter& row) -> Cell { return row.meaning; }},
}};

namespace cli {
namespace {

struct PoliciesArguments {
  std::vector<std::string> names;
  bool json = false, markdown = false;
};

Json json_of(const PolicyInfo& policy) {
  Json parameters = Json::array();
  for (const Parameter& parameter : policy.parameters) parameters.push_back(json_of_fields(Tables{}, parameter));
  return {{"name", std::string(policy.name)},
          {"description", std::string(policy.description)},
          {"memory", policy.host_memory ? "pinned host memory" : "device memory"},
          {"needs_whole_trace", policy.needs_whole_trace},
          {"parameters", std::move(parameters)}};
}

/// Names and values are what a user types: they are never cut, as a table's cells would be.
void print_text(const PolicyInfo& policy) {
  std::cout << policy.name << '\n' << wrapped(std::string(policy.description), 2);
  for (const Parameter& parameter : policy.parameters)
    std::cout << '\n'
              << wrapped(parameter.name + "=" + parameter.initial + "  (" + parameter.values.text + ")", 2)
              << wrapped(parameter.meaning, 6);
}

/// The parameters as a table of docs/policies.md.
void print_markdown(const std::vector<const PolicyInfo*>& shown) {
  std::cout << "| policy | parameter | default | values | meaning |\n|---|---|---|---|---|\n";
  for (const PolicyInfo* policy : shown)
    for (const Parameter& parameter : policy->parameters)
      std::cout << "| `" << policy->name << "` | `" << parameter.name << "` | `" << parameter.initial << "` | "
                << parameter.values.text << " | " << parameter.meaning << " |\n";
}

Exit run_policies(const PoliciesArguments& arguments) {
  std::vector<const PolicyInfo*> shown;
  for (const std::string& name : arguments.names) {
    const auto known = std::ranges::find(policies(), name, &PolicyInfo::name);
    if (known == policies().end())
      return fail({.what = "unknown policy '" + printable(name) + "'", .remedy = "memreel policies lists all of them"});
    shown.push_back(&*known);
  }
  if (shown.empty())
    for (const PolicyInfo& policy : policies()) shown.push_back(&policy);
  if (arguments.json) {
    Json list = Json::array();
    for (const PolicyInfo* policy : shown) list.push_back(json_of(*policy));
    print_json({{"schema", "memreel.policies/1"}, {"policies", std::move(list)}});
  } else if (arguments.markdown) {
    print_markdown(shown);
  } else {
    for (const PolicyInfo* policy : shown) {
      if (policy != shown.front()) std::cout << '\n';
      print_text(*policy);
    }
  }
  if (Result<void> flushed = flush_output(); !flushed) return fail(flushed.error());
  return Exit::done;
}

}  // namespace

void add_policies_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("policies", "List the allocators that can be replayed, and their parameters");
  const auto arguments = std::make_shared<PoliciesArguments>();
  command->add_option("NAME", arguments->names, "Only these");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.policies/1) instead of text");
  command->add_flag("--markdown", arguments->markdown, "The parameters as a table in Markdown");
  command->footer(
      "Examples:\n"
      "  memreel policies\n"
      "  memreel policies cuda.async rmm.pool\n"
      "  memreel policies --json | jq '.policies[].name'");
  command->callback([arguments, &exit] { exit = run_policies(*arguments); });
}

}  // namespace cli

}  // namespace memreel

namespace memreel::cli {
namespace {

struct VerifyArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string torch_version, policy;
  bool json = false;
};

Json json_of(const std::optional<Divergence>& divergence) {
  if (!divergence) return nullptr;
  return {{"event", divergence->event},
          {"expected", divergence->expected},
          {"happened", divergence->happened},
          {"free_blocks", divergence->free_blocks}};
}

Json json_of(const Verification& v) {
  Json device{{"device", v.device},
              {"policy", v.policy.name},
              {"params", v.policy.parameters},
              {"exact", v.exact()},
              {"allocations", v.allocations},
              {"address_matches", v.address_matches},
              {"segment_events", v.segment_events},
              {"segment_matches", v.segment_matches},
              {"peak_reserved_bytes", v.peak_reserved.count},
              {"recorded_peak_reserved_bytes", v.recorded_peak_reserved.count},
              {"first_divergence", json_of(v.first_divergence)}};
  if (!v.rules.empty()) device["rules"] = v.rules;
  if (!v.note.empty()) device["note"] = v.note;
  return device;
}

void print_text(const Verification& v) {
  const std::string verdict = v.exact() ? bold("exact") : red("not exact");
  std::cout << (v.device < 0 ? "host memory" : "device " + std::to_string(v.device)) << ", " << v.policy.name << ": "
            << verdict << "\n  addresses       " << text_of(v.address_matches) << " of " << text_of(v.allocations)
            << "\n  segment events  " << text_of(v.segment_matches) << " of " << text_of(v.segment_events)
            << "\n  peak reserved   " << text_of(v.peak_reserved) << ", recorded " << text_of(v.recorded_peak_reserved)
            << '\n';
  if (!v.rules.empty()) std::cout << "  rules           " << v.rules << '\n';
  if (!v.note.empty()) std::cout << "  note            " << v.note << '\n';
  if (v.first_divergence) {
    const Divergence& d = *v.first_divergence;
    std::cout << "  first divergence at event " << text_of(d.event) << "\n    recorded  " << d.expected
              << "\n    replayed  " << d.happened << '\n';
    if (!d.free_blocks.empty()) std::cout << "    free blocks around it\n";
    for (const std::string& line : d.free_blocks) std::cout << "      " << line << '\n';
  }
}

Exit run_verify(const VerifyArguments& arguments) {
  VerifyOptions options{.torch_release = arguments.torch_version, .policy = {}};
  if (!arguments.policy.empty()) {
    Result<std::vector<PolicySpec>> policies = parse_policy_lists(std::span(&arguments.policy, 1));
    if (!policies) return fail(policies.error());
    if (policies->size() != 1)
      return fail({.what = "takes one policy", .where = "--policy", .remedy = "verify once for each"});
    options.policy = policies->front();
  }
  const Result<Trace> trace = open_completed(arguments.file, arguments.memory_limit);
  if (!trace) return fail(trace.error());
  Result<std::vector<Verification>> verified = [&] {
    const ProgressBar bar("replaying the recorded allocator");
    return verify(*trace, options);
  }();
  if (!verified) {
    if (verified.error().where != "--torch-version") verified.error().where = arguments.file.string();
    return fail(verified.error());
  }
  const bool exact = std::all_of(verified->begin(), verified->end(), [](const Verification& v) { return v.exact(); });
  if (arguments.json) {
    Json devices = Json::array();
    for (const Verification& v : *verified) devices.push_back(json_of(v));
    print_json({{"schema", "memreel.verify/1"},
                {"trace", arguments.file.string()},
                {"exact", exact},
                {"losses", json_of_losses(*trace)},
                {"devices", std::move(devices)}});
  } else {
    for (const Verification& v : *verified) print_text(v);
  }
  return exact ? Exit::done : Exit::negative;
}

}  // namespace

void add_verify_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("verify", "Replay the recorded allocator and compare every address");
  const auto arguments = std::make_shared<VerifyArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  add_torch_version_option(*command, arguments->torch_version);
  command->add_option("--policy", arguments->policy,
                      "Compare the history with this policy, e.g. rmm.pool{initial=64MiB} [the recorded allocator]");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.verify/1) instead of text");
  command->footer(
      "Exit code 1 if the replay differs from the recording anywhere.\n\n"
      "Examples:\n"
      "  memreel verify run.reel\n"
      "  memreel verify pool.jsonl --policy 'rmm.pool{initial=64MiB,maximum=700MiB}'\n"
      "  memreel verify snapshot.pickle --json | jq .exact");
  command->callback([arguments, &exit] { exit = run_verify(*arguments); });
}

namespace {

struct Scene {
  const char* sentence;
  std::vector<std::string> words;  // of the command, without the trace
};

const std::array<Scene, 4>& scenes() {
  static const std::array<Scene, 4> all{{
      {"A GPT was trained on an H200 while PyTorch recorded its allocator. This is what the recording holds.",
       {"info"}},
      {"What did it need the memory for, and who held it?", {"report", "--summary"}},
      {"Can it be trusted? PyTorch's allocator is replayed and every address compared with the recorded one.",
       {"verify"}},
      {"The same requests, other allocators: how much memory would each have taken from the GPU?",
       {"replay", "--policy", "bound.live,cuda.malloc,torch.native,fit.best"}},
  }};
  return all;
}

Exit run(std::vector<std::string> words) {
  CLI::App app;
  Exit exit = Exit::done;
  add_commands(app, exit);
  std::ranges::reverse(words);  // the order CLI11 expects
  app.parse(words);
  return exit;
}

Exit run_demo() {
  const std::filesystem::path trace = sample_trace();
  if (trace.empty())
    return fail({.what = "the sample recording is not installed",
                 .where = "share/memreel/samples",
                 .remedy = "reinstall memreel, or run memreel report TRACE on a recording of your own"});
  for (const Scene& scene : scenes()) {
    std::vector<std::string> words = scene.words;
    words.insert(words.begin() + 1, trace.string());
    std::string typed = "memreel";
    for (const std::string& word : words) typed += ' ' + (word == trace.string() ? shell_word(word) : word);
    std::cout << bold(wrapped(scene.sentence, 0)) << "\n$ " << typed << "\n\n";
    if (const Exit exit = run(words); exit != Exit::done) return exit;
    std::cout << '\n';
  }
  std::cout << bold("Next") << "\n\n"
            << "memreel record python train.py     record your own program\n"
               "memreel report snapshot.pickle     or read a recording made by PyTorch itself\n"
               "memreel view "
            << shell_word(trace.string()) << "\n"
            << "memreel --help                     all commands\n";
  return Exit::done;
}

}  // namespace

void add_demo_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("demo", "Show what memreel does, on a recording that comes with it");
  command->footer(
      "Prints each command that it runs. Needs no GPU.\n\n"
      "Examples:\n"
      "  memreel demo");
  command->callback([&exit] { exit = run_demo(); });
}

}  // namespace memreel::cli
