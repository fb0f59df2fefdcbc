#include "analyzer/cli/predict_inputs.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/cli/completed_input.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/predict/arguments.h"
#include "analyzer/replay/registry.h"

namespace memreel::cli {
namespace {

Result<PolicySpec> policy_of(const Trace& trace, const std::vector<Prepared>& heaps, const PredictArguments& arguments,
                             const std::string& file) {
  PolicySpec spec;
  if (!arguments.policy.empty()) {
    Result<std::vector<PolicySpec>> specs = parse_policies(arguments.policy);
    if (!specs) return std::move(specs).error();
    if (specs->size() != 1) return Error{.what = "a prediction is made for one policy", .where = "--policy"};
    spec = specs->front();
  } else if (const auto recorded = recorded_policy(trace, heaps)) {
    spec = *recorded;
  } else {
    return Error{.what = "this program did not use PyTorch's allocator",
                 .where = file,
                 .remedy = "name one with --policy, e.g. --policy cuda.malloc"};
  }
  Result<BoundPolicy> bound = bind_policy(spec);
  if (!bound) return std::move(bound).error();
  return bound->spec;
}

}  // namespace

Result<PredictInputs> open_inputs(const PredictArguments& arguments) {
  PredictInputs inputs;
  Result<std::vector<RecordingArgument>> parsed = parse_recordings(arguments.recordings);
  if (!parsed) return std::move(parsed).error();
  inputs.names = parsed->front().names;
  std::vector<std::filesystem::path> files;
  for (const RecordingArgument& argument : *parsed) files.push_back(argument.file);
  bound_memory(files, arguments.memory_limit);
  Values largest;
  for (RecordingArgument& argument : *parsed) {
    for (const std::filesystem::path& output : {arguments.output, arguments.html})
      if (!output.empty())
        if (Result<void> differ = must_differ(argument.file, output); !differ) return std::move(differ).error();
    Result<Trace> trace = open_completed(argument.file, arguments.memory_limit);
    if (!trace) return std::move(trace).error();
    const std::vector<Prepared> heaps = program_heaps(*trace);
    const Result<HeapId> heap = busiest_heap(*trace, heaps, argument.file);
    if (!heap) return heap.error();
    if (largest.empty() || scale(argument.at, largest) >= 1) {  // settings are those of the largest
      largest = argument.at;
      Result<PolicySpec> policy = policy_of(*trace, heaps, arguments, argument.file);
      if (!policy) return std::move(policy).error();
      inputs.policy = *std::move(policy);
    }
    inputs.recordings.push_back(
        {.file = argument.file, .at = std::move(argument.at), .trace = *std::move(trace), .heap = *heap});
  }
  return inputs;
}

}  // namespace memreel::cli
