#include "analyzer/cli/predict_inputs.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/cli/arguments.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/subject.h"
#include "analyzer/predict/cards.h"
#include "analyzer/replay/registry.h"

namespace memreel::cli {
namespace {

/// Values of parameters as they are written, in the order of their names.
struct NamedValues {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint64_t>> values;
};

/// "batch=8,16,seq=512". Errors name `where`.
Result<NamedValues> parse_values(std::string_view text, const std::string& where) {
  NamedValues parsed;
  const auto refuse = [&](const std::string& what) {
    return Error{.what = what, .where = where, .remedy = "write NAME=NUMBER, several separated by commas"};
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      if (equals == 0) return refuse("a parameter without a name");
      const std::string name(word.substr(0, equals));
      if (std::ranges::find(parsed.names, name) != parsed.names.end()) return refuse("two values of " + name);
      parsed.names.push_back(name);
      parsed.values.emplace_back();
      word.remove_prefix(equals + 1);
    }
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    constexpr std::uint64_t most = std::uint64_t{1} << 32U;  // products of powers stay within 128 bits
    if (parsed.names.empty() || error != std::errc{} || rest != word.data() + word.size() || value == 0 || value > most)
      return refuse("'" + std::string(word) + "' is not a positive whole number of a parameter");
    parsed.values.back().push_back(value);
  }
  return parsed;
}

/// Its heap is that of which the most is requested.
Result<HeapId> busiest_heap(const Trace& trace, const std::vector<Prepared>& heaps, const std::string& file) {
  if (heaps.empty()) return Error{.what = "holds no allocations to learn from", .where = file};
  std::vector<std::uint64_t> bytes(trace.tables.heaps.size());
  for (const Prepared& heap : heaps)
    for (std::size_t row = 0; row < heap.count(); ++row)
      if (heap.op[row] == Op::alloc) bytes[index(heap.heap)] += heap.size[row].count;
  return std::ranges::max_element(heaps, {}, [&](const Prepared& heap) { return bytes[index(heap.heap)]; })->heap;
}

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
    return Error{.what = "the allocator that this program ran with is not PyTorch's",
                 .where = file,
                 .remedy = "name one with --policy, e.g. --policy cuda.malloc"};
  }
  Result<BoundPolicy> bound = bind_policy(spec);
  if (!bound) return std::move(bound).error();
  return bound->spec;
}

/// What of the device was in use besides the allocator's segments, by the samples of a recording.
std::optional<Bytes> sampled_others(const std::vector<Recording>& recordings) {
  std::optional<Bytes> most;
  for (const Recording& recording : recordings) {
    const EventColumns& events = recording.trace.events;
    Bytes reserved;
    for (std::size_t i = 0; i < events.count(); ++i) {
      const EventKind kind = events.kind[i];
      if (kind == EventKind::memory_info && events.size[i] >= reserved)
        most = std::max(most.value_or(Bytes{}), events.size[i] - reserved);
      if (recording.trace.tables[events.origin[i]].heap != recording.heap) continue;
      if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) reserved += events.size[i];
      if (kind == EventKind::segment_free || kind == EventKind::segment_unmap) reserved -= events.size[i];
    }
  }
  return most;
}

}  // namespace

Result<PredictInputs> open_inputs(const PredictArguments& arguments) {
  PredictInputs inputs;
  std::uint64_t largest = 0;
  for (const std::string& argument : arguments.recordings) {
    const std::size_t colon = argument.find(':');
    const std::size_t equals = argument.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals > colon)
      return Error{.what = "'" + argument + "' does not say at which value it was recorded",
                   .remedy = "write NAME=VALUE:FILE, e.g. batch=4:snapshot.pickle"};
    const std::string file = argument.substr(colon + 1);
    if (!arguments.output.empty())
      if (Result<void> differ = must_differ(file, arguments.output); !differ) return std::move(differ).error();
    Result<NamedValues> at = parse_values(std::string_view(argument).substr(0, colon), argument);
    if (!at) return std::move(at).error();
    if (inputs.names.empty()) inputs.names = at->names;
    if (at->names != inputs.names)
      return Error{.what = "names other parameters than the recordings before it", .where = argument};
    Values values;
    std::uint64_t size = 1;
    for (const std::vector<std::uint64_t>& value : at->values) {
      if (value.size() != 1) return Error{.what = "a recording was made at one value", .where = argument};
      values.push_back(value.front());
      size *= value.front();
    }
    Result<Trace> trace = open_subject(file, arguments.memory_limit);
    if (!trace) return std::move(trace).error();
    const std::vector<Prepared> heaps = program_heaps(*trace);
    const Result<HeapId> heap = busiest_heap(*trace, heaps, file);
    if (!heap) return heap.error();
    if (size >= largest) {  // settings are those of the largest
      largest = size;
      Result<PolicySpec> policy = policy_of(*trace, heaps, arguments, file);
      if (!policy) return std::move(policy).error();
      inputs.policy = *std::move(policy);
    }
    inputs.recordings.push_back({.file = file, .at = std::move(values), .trace = *std::move(trace), .heap = *heap});
  }
  return inputs;
}

Result<std::vector<Values>> targets_of(const PredictArguments& arguments, const std::vector<std::string>& names,
                                       const Values& largest) {
  std::vector<std::vector<std::uint64_t>> wanted(names.size());
  for (const std::string& text : arguments.to) {
    Result<NamedValues> parsed = parse_values(text, "--to");
    if (!parsed) return std::move(parsed).error();
    for (std::size_t i = 0; i < parsed->names.size(); ++i) {
      const auto name = std::ranges::find(names, parsed->names[i]);
      if (name == names.end())
        return Error{.what = "no recording names a parameter '" + parsed->names[i] + "'", .where = "--to"};
      auto& values = wanted[static_cast<std::size_t>(name - names.begin())];
      values.insert(values.end(), parsed->values[i].begin(), parsed->values[i].end());
    }
  }
  std::vector<Values> targets{Values{}};
  for (std::size_t p = 0; p < names.size(); ++p) {
    if (wanted[p].empty()) wanted[p].push_back(largest[p]);
    std::vector<Values> longer;
    for (const Values& target : targets)
      for (const std::uint64_t value : wanted[p]) {
        longer.push_back(target);
        longer.back().push_back(value);
      }
    targets = std::move(longer);
  }
  return targets;
}

Result<PredictDevice> device_of(const std::string& capacity, const std::vector<Recording>& recordings) {
  PredictDevice device;
  if (capacity.empty()) return device;
  const Card* const card = find_card(capacity);
  if (card == nullptr) {
    Result<Bytes> size = parse_size(capacity, "--capacity");
    if (!size) {
      std::string names;
      for (const Card& known : cards()) names += (names.empty() ? "" : ", ") + std::string(known.name);
      size.error().remedy = "give a size, e.g. 24GiB, or a card: " + names;
      return std::move(size).error();
    }
    device.capacity = *size;
    return device;
  }
  const std::optional<Bytes> sampled = sampled_others(recordings);
  device.card = card->name;
  device.others = sampled.value_or(assumed_context);
  device.assumed = !sampled;
  if (device.others >= card->memory)
    return Error{.what = "the recording shows more memory in use beside the allocator than the card has",
                 .where = "--capacity"};
  device.capacity = card->memory - device.others;
  return device;
}

}  // namespace memreel::cli
