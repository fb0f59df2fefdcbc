// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/arguments.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/program.h"
#include "analyzer/replay/verify.h"
#include "formats/model/quantity.h"

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
                {"devices", devices}});
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

}  // namespace memreel::cli
