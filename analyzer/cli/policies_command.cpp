// SPDX-License-Identifier: Apache-2.0
// `memreel policies`: what can be replayed, and with which parameters.
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/cli/json.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/program.h"
#include "analyzer/engine/parameters.h"
#include "analyzer/replay/registry.h"
#include "analyzer/report/fields.h"
#include "analyzer/report/text_table.h"
#include "formats/model/stack_text.h"

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
