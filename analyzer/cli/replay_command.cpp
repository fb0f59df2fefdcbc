// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/on_device.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/cli/report.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/plan/plan.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/streamed_trace.h"
#include "analyzer/replay/torch_rules.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

struct ReplayArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string torch_version;
  std::vector<std::string> policies;
  std::vector<std::string> on_device;
  GpuArguments gpu;
  std::filesystem::path unit_costs;
  std::string capacity, heap;
  double seconds = most_replay_seconds;
  bool series = false;
  bool json = false;
  bool stream = false;
};

constexpr std::string_view default_policies = "bound.live,cuda.malloc,torch.native,fit.best";
constexpr std::string_view default_policies_of_pinned_memory = "bound.live,torch.host";
constexpr std::string_view default_policies_of_the_driver = "bound.live,cuda.malloc";

/// The results of one policy, one per heap.
using PolicyResults = std::span<const ReplayResult>;

/// Host memory counts only if there is nothing else.
const ReplayResult& worst_device(PolicyResults results) {
  return *std::max_element(results.begin(), results.end(), [](const ReplayResult& a, const ReplayResult& b) {
    return std::pair(a.device >= 0, a.peak_reserved) < std::pair(b.device >= 0, b.peak_reserved);
  });
}

Json json_of(const std::vector<SeriesPoint>& series) {
  Json points = Json::array();
  for (const SeriesPoint& p : series) {
    points.push_back({{"first_event", p.first_event},
                      {"live_bytes_max", p.live_max.count},
                      {"allocated_bytes_max", p.allocated_max.count},
                      {"reserved_bytes_max", p.reserved_max.count},
                      {"external_fragmentation_max", p.external_fragmentation_max}});
  }
  return points;
}

// Null for bounds, which don't place allocations.
void add_placement_metrics(Json& result, const ReplayResult& r) {
  const auto stranded = [&](const std::string& name, StrandedMemory FreeMemory::*which) {
    result[name + "_bytes"] = r.free_memory ? Json(((*r.free_memory).*which).bytes.count) : Json(nullptr);
    result[name + "_event"] = r.free_memory ? Json(((*r.free_memory).*which).event) : Json(nullptr);
  };
  stranded("stranded_stream", &FreeMemory::stranded_stream);
  stranded("stranded_pool", &FreeMemory::stranded_pool);
  result["unusable"] = nullptr;
  if (r.free_memory)
    for (std::size_t i = 0; i < FreeMemory::sizes.size(); ++i)
      result["unusable"][std::to_string(FreeMemory::sizes[i] / 1_MiB) + "MiB"] = r.free_memory->unusable[i];
  result["address_stability"] = r.address_stability ? Json(*r.address_stability) : Json(nullptr);
}

/// Whether the heap's state at a late start is known.
bool has_initial_state(std::span<const Prepared> heaps, HeapId heap) {
  return std::ranges::any_of(heaps, [&](const Prepared& p) { return p.heap == heap && p.initial; });
}

Json json_of(const ReplayResult& r, const ReplayArguments& arguments, const std::optional<UnitCosts>& costs,
             std::span<const Prepared> heaps, const LateRanges& late, const Tables& tables) {
  Json result{{"policy", r.policy.name},
              {"params", r.policy.parameters},
              {"peak_live_bytes", r.peak_live.count},
              {"peak_live_event", r.peak_live_event},
              {"peak_allocated_bytes", r.peak_allocated.count},
              {"peak_allocated_event", r.peak_allocated_event},
              {"peak_reserved_bytes", r.peak_reserved.count},
              {"peak_reserved_event", r.peak_reserved_event},
              {"end_reserved_bytes", r.end_reserved.count},
              {"overhead", r.overhead()},
              {"fragmentation_at_peak", r.fragmentation_at_peak},
              {"external_fragmentation_max", r.external_fragmentation_max},
              {"internal_waste", r.internal_waste},
              {"failed_allocations", r.failed_allocations},
              {"first_failure", cli::json_of_failure(r.first_failure)},
              {"driver_calls", json_of_calls(r.driver_calls)}};
  if (costs) result["driver_seconds"] = costs->seconds(r.driver_calls);
  result["capacity_bytes"] =
      r.device_model.kind == DeviceModel::Kind::capacity ? Json(r.device_model.capacity.count) : Json(nullptr);
  if (has_initial_state(heaps, r.heap)) {
    result["late_start"] = r.resumed ? "resumed" : "placed_afresh";
    const auto range = range_of(r, late);
    result["late_start_range_bytes"] = range ? Json({range->first.count, range->second.count}) : Json(nullptr);
  }
  if (r.plan)
    result["plan"] = {{"peak_bytes", r.plan->peak.count},
                      {"bound_bytes", r.plan->bound.count},
                      {"gap", r.plan->gap()},
                      {"method", r.plan->method},
                      {"proved", r.plan->proved()}};
  add_placement_metrics(result, r);
  if (r.min_capacity) result["min_capacity_bytes"] = r.min_capacity->count;
  result["seconds"] = r.seconds;
  result["events_per_second"] = r.seconds > 0 ? static_cast<double>(r.events) / r.seconds : 0.0;
  result["device"] = r.device;
  result["heap"] = tables[tables[r.heap].name];
  if (arguments.series) result["series"] = json_of(r.series);
  return result;
}

/// What the devices hold in all, under one policy.
Json json_of(std::span<const DeviceReplay> devices) {
  Json list = Json::array();
  for (const DeviceReplay& d : devices)
    list.push_back({{"device", d.device},
                    {"peak_reserved_bytes", d.peak_reserved.count},
                    {"peak_reserved_event", d.peak_event},
                    {"beside_bytes", d.beside_at_peak.count},
                    {"failed_allocations", d.failed_allocations},
                    {"min_capacity_bytes", d.min_capacity ? Json(d.min_capacity->count) : Json(nullptr)}});
  return list;
}

/// The replays of one policy on the devices, of several.
std::span<const DeviceReplay> of_policy(std::span<const DeviceReplay> devices, std::size_t policies,
                                        std::size_t which) {
  const std::size_t count = devices.size() / policies;
  return devices.subspan(which * count, count);
}

// The level to replay: the framework level if the trace has one, since it holds the program's requests.
Level replayed_level(const std::vector<Prepared>& heaps) {
  const bool framework =
      std::any_of(heaps.begin(), heaps.end(), [](const Prepared& p) { return p.level == Level::framework; });
  return framework ? Level::framework : Level::driver;
}

/// What the time did not suffice for.
struct Unfinished {
  std::vector<std::string> policies;    // not replayed to the end
  std::vector<std::string> capacities;  // policies whose least capacity is unknown

  bool is_empty() const { return policies.empty() && capacities.empty(); }
};

/// Removes the policies that were not replayed to the end on every heap, from the results too.
Unfinished remove_left_out(std::vector<ReplayResult>& results, std::vector<PolicySpec>& asked, std::size_t heaps,
                           const ReplayOptions& options) {
  Unfinished left_out;
  if (std::chrono::steady_clock::now() <= options.deadline) return left_out;
  std::vector<PolicySpec> replayed;
  std::vector<ReplayResult> kept;
  for (std::size_t s = 0; s < asked.size(); ++s) {
    const auto group = std::span(results).subspan(s * heaps, heaps);
    if (std::ranges::any_of(group, [](const ReplayResult& r) { return r.policy.name.empty(); })) {
      left_out.policies.push_back(asked[s].text());
      continue;
    }
    if (options.find_min_capacity && std::ranges::any_of(group, [](const ReplayResult& r) { return !r.min_capacity; }))
      left_out.capacities.push_back(asked[s].text());
    replayed.push_back(std::move(asked[s]));
    std::ranges::move(group, std::back_inserter(kept));
  }
  results = std::move(kept);
  asked = std::move(replayed);
  return left_out;
}

void print_left_out(const Unfinished& left_out, double seconds) {
  const auto print = [&](const std::string& what, const std::vector<std::string>& policies) {
    std::string names;
    for (const std::string& policy : policies) names += (names.empty() ? "" : ", ") + policy;
    if (!names.empty())
      std::cout << '\n' << wrapped(what + " when " + text_of_seconds(seconds) + " had passed (--seconds): " + names, 2);
  };
  print("not replayed to the end", left_out.policies);
  print("least capacity not found", left_out.capacities);
}

void print_replay_json(const ReplayInput& input, const std::vector<PolicyResults>& groups,
                       std::span<const DeviceReplay> devices_of_all, const ReplayArguments& arguments,
                       const std::optional<UnitCosts>& costs, const TorchRules& rules, const Json& on_device,
                       const LateRanges& late, const Unfinished& left_out) {
  Json policies = Json::array();
  for (std::size_t s = 0; s < groups.size(); ++s) {
    const PolicyResults group = groups[s];
    Json policy, devices = Json::array();
    const ReplayResult& worst = worst_device(group);
    for (const ReplayResult& r : group) {
      devices.push_back(json_of(r, arguments, costs, input.heaps, late, input.trace.tables));
      if (&r == &worst) policy = devices.back();
    }
    policy["devices"] = std::move(devices);
    policy["device_totals"] = json_of(of_policy(devices_of_all, groups.size(), s));
    policies.push_back(std::move(policy));
  }
  Json document({{"schema", "memreel.replay/1"},
                 {"trace", arguments.file.string()},
                 {"level", replayed_level(input.heaps) == Level::framework ? "framework" : "driver"},
                 {"events", input.event_count},
                 {"losses", json_of_losses(input.trace)},
                 {"policies", std::move(policies)},
                 {"not_replayed", left_out.policies},
                 {"stopped_by", left_out.is_empty() ? Json(nullptr) : Json("seconds")}});
  if (!rules.text.empty()) document["torch_rules"] = rules.text;
  if (!on_device.is_null()) document["on_device"] = on_device;
  print_json(document);
}

std::string memory_of(const DeviceModel& device) {
  return device.kind == DeviceModel::Kind::unlimited ? "unlimited" : text_of(device.capacity);
}

// "torch.native{max_split_size_mb=128}": only the given parameters; the defaults would hide them.
std::string label_of(const PolicySpec& asked) { return asked.text(); }

/// From what the policies started, if the recording began late.
void print_late_start(HeapId heap, const std::vector<PolicySpec>& specs, const std::vector<PolicyResults>& groups,
                      std::span<const Prepared> heaps, const LateRanges& late) {
  if (!has_initial_state(heaps, heap)) return;
  std::string resumed, ranges;
  bool afresh = false;
  for (std::size_t s = 0; s < groups.size(); ++s)
    for (const ReplayResult& r : groups[s]) {
      if (r.heap != heap) continue;
      afresh = afresh || !r.resumed;
      if (r.resumed) resumed += (resumed.empty() ? "" : ", ") + label_of(specs[s]);
      if (const auto range = range_of(r, late))
        ranges += (ranges.empty() ? "" : ", ") + label_of(specs[s]) + " " + text_of(range->first) + " to " +
                  text_of(range->second);
    }
  std::string text = "replay from a late start: ";
  if (!resumed.empty()) text += resumed + " from what was held then, cached memory included";
  if (!resumed.empty() && afresh) text += "; ";
  if (afresh)
    text += std::string(resumed.empty() ? "the" : "the other") +
            " policies place what was live then themselves, without cached memory";
  if (!ranges.empty())
    text += "; how much of that memory they would have held, and where in it, is not known: " + ranges;
  std::cout << '\n' << wrapped(text, 2);
}

/// Why a request fails on a device without a limit: for its size, or by a limit of the policy.
std::string why_without_limit(const ReplayFailure& failure) {
  return failure.requested > 1024_GiB ? ", more than any device has" : ", refused by the policy itself";
}

void print_heap_table(const Trace& trace, const HeapHistory& history, const std::vector<PolicySpec>& specs,
                      const std::vector<PolicyResults>& groups, bool with_min_capacity,
                      const std::optional<UnitCosts>& costs, const TorchRules& rules, std::span<const Prepared> heaps,
                      const LateRanges& late) {
  std::vector<TableColumn> columns{{"peak reserved", Align::right}, {"/ live", Align::right}, {"frag.", Align::right},
                                   {"at the end", Align::right},    {"failed", Align::right}, {"calls", Align::right}};
  if (costs) columns.push_back({"driver time", Align::right});
  if (with_min_capacity) columns.push_back({"fits in", Align::right});
  columns.push_back({"policy"});  // last, because it may be long
  TextTable table(columns);
  if (history.peak_reserved != 0_B) {
    const double overhead = history.peak_live == 0_B ? 0
                                                     : static_cast<double>(history.peak_reserved.count) /
                                                           static_cast<double>(history.peak_live.count);
    std::vector<std::string> row{text_of(history.peak_reserved), text_of(overhead, 3), "",
                                 text_of(history.end_reserved), text_of(history.failures)};
    row.resize(columns.size() - 1);
    row.emplace_back("(recorded)");
    table.add_row(std::move(row));
    table.add_rule();
  }
  for (std::size_t s = 0; s < groups.size(); ++s) {
    for (const ReplayResult& r : groups[s]) {
      if (r.heap != history.heap) continue;
      const DriverCalls& c = r.driver_calls;
      std::vector<std::string> row{
          text_of(r.peak_reserved), text_of(r.overhead(), 3),      text_of_share(r.fragmentation_at_peak),
          text_of(r.end_reserved),  text_of(r.failed_allocations), text_of(count_of(c))};
      if (costs) row.push_back(milliseconds(costs->seconds(c)));
      if (with_min_capacity) row.push_back(r.min_capacity ? text_of(*r.min_capacity) : "");
      row.push_back(label_of(specs[s]));
      table.add_row(std::move(row));
    }
  }
  const Heap& heap = trace.tables[history.heap];
  const DeviceModel device = groups.front().front().device_model;
  std::cout << bold(heap_title(trace.tables, history.heap)) << ": " << counted(history.allocations, "allocation")
            << ", peak live " << text_of(history.peak_live)
            << (heap.device < 0 ? "\n  host memory: " : "\n  device memory: ") << memory_of(device);
  if (rules.told) std::cout << "\n  rules: " << rules.text;
  std::cout << "\n\n";
  table.print(std::cout, 2);
  print_late_start(history.heap, specs, groups, heaps, late);

  for (std::size_t s = 0; s < groups.size(); ++s) {
    for (const ReplayResult& r : groups[s]) {
      if (r.heap != history.heap || !r.first_failure) continue;
      const ReplayFailure& f = *r.first_failure;
      std::cout << '\n'
                << wrapped(label_of(specs[s]) + " first fails at event " + text_of(f.event) + ": " +
                               text_of(f.requested) + " requested" +
                               (device.kind == DeviceModel::Kind::unlimited ? why_without_limit(f) : "") + " with " +
                               text_of(f.reserved) + " reserved, " + text_of(f.free) +
                               " of it free, largest free block " + text_of(f.largest_free),
                           2);
    }
  }
}

/// The heaps' results by policy, then heap. A heap that shares its device fits where all of them do. Leaves the devices
/// of policies that were replayed on all.
std::vector<ReplayResult> by_heap(std::vector<DeviceReplay>& devices, std::span<const Prepared> heaps,
                                  std::size_t policies) {
  std::vector<ReplayResult> results;
  std::vector<DeviceReplay> replayed;
  const std::size_t count = devices.size() / policies;
  for (std::size_t s = 0; s < policies; ++s) {
    const auto group = std::span(devices).subspan(s * count, count);
    std::map<std::int32_t, std::size_t> next;  // of each device's heaps, which are in the given order
    for (const Prepared& heap : heaps) {
      DeviceReplay& device = *std::ranges::find(group, heap.device, &DeviceReplay::device);
      results.push_back(device.heaps[next[heap.device]++]);
      if (device.min_capacity) results.back().min_capacity = device.min_capacity;
    }
    if (std::ranges::none_of(group, [](const DeviceReplay& device) { return device.policy.name.empty(); }))
      std::ranges::move(group, std::back_inserter(replayed));
  }
  devices = std::move(replayed);
  return results;
}

/// What several heaps of a device, and what is beside them, hold together.
void print_devices(const Tables& tables, const std::vector<PolicySpec>& specs, std::span<const DeviceReplay> devices,
                   const Surroundings& around, bool with_min_capacity) {
  const std::size_t count = devices.size() / specs.size();
  for (std::size_t d = 0; d < count; ++d) {
    const DeviceReplay& device = devices[d];
    const auto others = around.beside.find(device.device);
    if (device.heaps.size() < 2 && others == around.beside.end()) continue;
    std::vector<TableColumn> columns{{"peak", Align::right}, {"beside", Align::right}, {"failed", Align::right}};
    if (with_min_capacity) columns.push_back({"fits in", Align::right});
    columns.push_back({"policy"});
    TextTable table(columns);
    for (std::size_t s = 0; s < specs.size(); ++s) {
      const DeviceReplay& r = devices[s * count + d];
      std::vector<std::string> row{text_of(r.peak_reserved), text_of(r.beside_at_peak), text_of(r.failed_allocations)};
      if (with_min_capacity) row.push_back(r.min_capacity ? text_of(*r.min_capacity) : "");
      row.push_back(label_of(specs[s]));
      table.add_row(std::move(row));
    }
    std::string names;
    for (const ReplayResult& heap : device.heaps) names += (names.empty() ? "" : ", ") + tables[tables[heap.heap].name];
    std::cout << '\n'
              << bold(device.device < 0 ? std::string("host memory in all")
                                        : "device " + std::to_string(device.device) + " in all")
              << ": " << names << (others == around.beside.end() ? "" : ", and what is beside them as recorded")
              << "\n\n";
    table.print(std::cout, 2);
  }
}

Result<ReplayOptions> options_of(const ReplayArguments& arguments) {
  Result<std::optional<DeviceModel>> device = parse_capacity(arguments.capacity);
  if (!device) return std::move(device).error();
  const bool limited = *device && (*device)->kind == DeviceModel::Kind::capacity;
  return ReplayOptions{.device = *device, .find_min_capacity = limited, .placement_metrics = arguments.json};
}

/// Policies that are only modelled, as given.
Result<std::vector<PolicySpec>> modelled_specs(const ReplayArguments& arguments) {
  return arguments.policies.empty() ? std::vector<PolicySpec>{} : parse_policy_lists(arguments.policies);
}

/// The default policies for the heaps.
std::vector<PolicySpec> default_specs(const std::vector<Prepared>& heaps) {
  if (std::ranges::all_of(heaps, is_pinned_memory)) return *parse_policies(default_policies_of_pinned_memory);
  const auto is_made_into_pools = [](const Prepared& heap) { return heap.level == Level::driver && heap.pooled; };
  return *parse_policies(std::ranges::all_of(heaps, is_made_into_pools) ? default_policies_of_the_driver
                                                                        : default_policies);
}

/// Whether the policies are for pinned host memory. Error: only some are.
Result<bool> ask_of_pinned_memory(const std::vector<PolicySpec>& specs) {
  const auto is_host = [](const PolicySpec& spec) {
    const auto info = std::ranges::find(policies(), spec.name, &PolicyInfo::name);
    return info != policies().end() && info->host_memory;
  };
  const auto host = std::ranges::find_if(specs, is_host);
  if (host == specs.end()) return false;
  if (const auto other = std::ranges::find_if_not(specs, is_host); other != specs.end())
    return Error{.what = host->name + " is of pinned host memory, " + other->name + " of a device's",
                 .where = "--policy",
                 .remedy = "run them one after the other"};
  return true;
}

Exit run_replay(const ReplayArguments& arguments) {
  Result<std::vector<PolicySpec>> modelled = modelled_specs(arguments);
  if (!modelled) return fail(modelled.error());
  const Result<std::vector<PolicySpec>> real_specs = parse_policy_lists(arguments.on_device);
  if (!real_specs) return fail(real_specs.error());
  Result<ReplayOptions> options = options_of(arguments);
  if (!options) return fail(options.error());
  const std::filesystem::path& written = arguments.gpu.write_unit_costs;
  if (auto differ = must_differ(std::array{arguments.file, arguments.unit_costs}, std::array{written}); !differ)
    return fail(differ.error());
  if (arguments.json)
    if (auto room = leave_room_for_json(std::array{written}); !room) return fail(room.error());
  std::optional<UnitCosts> costs;
  if (!arguments.unit_costs.empty()) {
    Result<UnitCosts> read = read_unit_costs(arguments.unit_costs);
    if (!read) return fail(read.error());
    costs = *std::move(read);
  }
  const Result<bool> of_pinned_memory = ask_of_pinned_memory(*modelled);
  if (!of_pinned_memory) return fail(of_pinned_memory.error());
  bound_memory(std::span(&arguments.file, 1), arguments.memory_limit);
  const Result<ReplayInput> input = open_to_replay({.file = arguments.file,
                                                    .memory_limit = arguments.memory_limit,
                                                    .heap = arguments.heap,
                                                    .of_pinned_memory = *of_pinned_memory,
                                                    .streams = arguments.stream});
  if (!input) return fail(input.error());
  const std::vector<Prepared>& heaps = input->heaps;
  if (modelled->empty() && real_specs->empty()) modelled = default_specs(heaps);
  const Result<TorchRules> rules = torch_rules(input->trace, heaps, arguments.torch_version);
  if (!rules) return fail(rules.error());
  if (input->streamed && !real_specs->empty()) {
    return fail({.what = "too large to run on a device, which needs it in memory",
                 .where = arguments.file.string(),
                 .remedy = "leave out --stream, or record a shorter trace"});
  }
  options->rows = input->streamed.get();
  // Policies run on the device are modelled too, for comparison.
  std::vector<PolicySpec> specs = *modelled;
  specs.insert(specs.end(), real_specs->begin(), real_specs->end());
  std::vector<PolicySpec> asked = specs;
  set_torch_rules(specs, *rules);
  if (real_specs->empty()) options->deadline = deadline_after(arguments.seconds);
  Surroundings around;
  if (!input->streamed && arguments.heap.empty())
    around = surroundings_of(input->trace, device_memory(input->trace), heaps);
  Result<std::vector<DeviceReplay>> devices = [&] {
    ProgressBar bar("replaying");
    options->on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    return replay_devices(heaps, specs, *options, around);
  }();
  options->on_progress = {};
  if (!devices) return fail(devices.error());
  std::vector<ReplayResult> results = by_heap(*devices, heaps, specs.size());
  if (input->streamed) {
    if (const Result<void> read = input->streamed->status(); !read) return fail(read.error());
  }
  const Result<std::optional<OnDevice>> on_device = run_on_device(arguments.gpu, heaps, *real_specs, *options);
  if (!on_device) return fail(on_device.error());
  const Unfinished left_out = remove_left_out(results, asked, heaps.size(), *options);
  if (results.empty())
    return fail({.what = "no policy was replayed to the end in " + text_of_seconds(arguments.seconds),
                 .where = arguments.file.string(),
                 .remedy = "allow more with --seconds"});
  std::vector<PolicyResults> groups;
  for (std::size_t s = 0; s < asked.size(); ++s) {
    groups.push_back(PolicyResults(results).subspan(s * heaps.size(), heaps.size()));
  }
  const LateRanges late = late_start_ranges(results, heaps, *options);
  const PolicyResults models = PolicyResults(results).last(real_specs->size() * heaps.size());

  if (arguments.json) {
    print_replay_json(*input, groups, *devices, arguments, costs, *rules,
                      *on_device ? json_of(**on_device, models,
                                           [&](const ReplayResult& r) {
                                             return json_of(r, arguments, costs, heaps, late, input->trace.tables);
                                           })
                                 : Json(nullptr),
                      late, left_out);
    return Exit::done;
  }
  if (take_standard_output(std::array{written})) return Exit::done;
  bool first = true;
  for (const HeapHistory& history : input->histories) {
    const bool replayed =
        std::any_of(heaps.begin(), heaps.end(), [&](const Prepared& p) { return p.heap == history.heap; });
    if (!replayed) continue;
    if (!std::exchange(first, false)) std::cout << '\n';
    print_heap_table(input->trace, history, asked, groups, options->find_min_capacity, costs, *rules, heaps, late);
  }
  print_devices(input->trace.tables, asked, *devices, around, options->find_min_capacity);
  print_left_out(left_out, arguments.seconds);
  if (*on_device) print_table(**on_device, models);
  return Exit::done;
}

}  // namespace

void add_replay_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("replay", "Show what other allocators and settings would have reserved");
  const auto arguments = std::make_shared<ReplayArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  add_torch_version_option(*command, arguments->torch_version, "2.11");
  command
      ->add_option("--policy", arguments->policies,
                   "Policies to compare, e.g. torch.native{max_split_size_mb=128}; repeatable, comma lists [" +
                       std::string(default_policies) + "]")
      ->allow_extra_args(false);  // what follows a spec is the trace, not another spec
  command->add_option(
      "--capacity", arguments->capacity,
      "Memory of the device, e.g. 24GiB, or unlimited; also finds the least capacity that suffices "
      "[implied by recorded failures, else unlimited]. The heaps of a device share it, with what else is on it");
  add_heap_option(*command, arguments->heap, "Replay", ", as if it had the device for itself");
  add_seconds_option(*command, arguments->seconds);
  command->add_flag("--stream", arguments->stream,
                    "Read a .reel again for each policy instead of holding it in memory; the default from " +
                        text_of(most_events_in_memory) + " events on; without address_stability");
  command
      ->add_option(
          "--on-device", arguments->on_device,
          "Policies to run on a real GPU, in addition to the model: cuda.malloc, cuda.async, or one that places "
          "blocks in segments; repeatable, comma lists")
      ->allow_extra_args(false);
  constexpr std::uint64_t most_gpus = 1024;
  add_whole_number(*command, "--gpu", arguments->gpu.number, {0, most_gpus - 1},
                   "With --on-device or --write-unit-costs: which GPU [0]");
  command
      ->add_option_function<std::string>(
          "--segments-by",
          [arguments](const std::string& way) {
            arguments->gpu.segments_by = way == "map" ? gpu::SegmentsBy::map : gpu::SegmentsBy::malloc;
          },
          "With --on-device: make segments by malloc (cuMemAlloc) or map (cuMemCreate, cuMemMap) [malloc]")
      ->check(one_of({"malloc", "map"}))
      ->option_text("malloc|map");
  command->add_option(
      "--unit-costs", arguments->unit_costs,
      "Costs of driver calls, as --write-unit-costs writes them: adds the time that each policy's calls take");
  command->add_option("--write-unit-costs", arguments->gpu.write_unit_costs,
                      "Measure what driver calls cost on the GPU and write that to a file");
  command->add_flag("--series", arguments->series, "With --json: the metrics over time");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.replay/1) instead of text");
  only_with(*command, {"--series"}, {"--json"});
  only_with(*command, {"--segments-by"}, {"--on-device"});
  only_with(*command, {"--gpu"}, {"--on-device", "--write-unit-costs"});
  const auto names_of = [](const std::vector<Parameter>& parameters) {
    std::string names;
    for (const Parameter& parameter : parameters) names += parameter.name + ' ';
    return names;
  };
  std::set<std::string> listed;
  std::string known;
  for (const PolicyInfo& policy : policies()) {
    known += "\n  " + std::string(policy.name) +
             std::string(policy.name.size() < 14 ? 14 - policy.name.size() : 1, ' ') + std::string(policy.description);
    std::string parameters;
    for (const Parameter& parameter : policy.parameters)
      parameters += (parameters.empty() ? "" : ", ") + parameter.name + "=" + parameter.initial;
    // Variants of one policy that differ only in values share one list.
    if (parameters.empty() || !listed.insert(names_of(policy.parameters)).second) continue;
    known += "\n" + wrapped(parameters, 18);
    known.pop_back();
  }
  known += "\n  ./FILE.so     a policy of your own (docs/own-policy.md)";
  command->footer("Policies and their parameters (memreel policies says what each means):" + known +
                  "\n\nExamples:\n"
                  "  memreel replay run.reel\n"
                  "  memreel replay run.reel --policy 'torch.native,torch.native{max_split_size_mb=128}'\n"
                  "  memreel replay snapshot.pickle --capacity 24GiB\n"
                  "  memreel replay run.reel --on-device 'cuda.malloc,cuda.async{release_threshold=max},torch.native'\n"
                  "  memreel replay run.reel --policy fit.best --json | jq '.policies[0].peak_reserved_bytes'");
  command->callback([arguments, &exit] { exit = run_replay(*arguments); });
}

}  // namespace memreel::cli
