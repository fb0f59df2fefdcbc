// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/on_device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <ostream>

#include "analyzer/describe/text_table.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

constexpr std::string_view schema = "memreel.unit-costs/1";
constexpr const char* remedy = "write one with memreel replay TRACE --on-device cuda.malloc --write-unit-costs FILE";

/// A valid time: neither negative nor infinite.
std::optional<double> seconds_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0.0;
  if (!found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!(value >= 0 && value < 1e6)) return std::nullopt;
  return value;
}

}  // namespace

Result<UnitCosts> read_unit_costs(const std::filesystem::path& file) {
  const auto bad = [&](std::string what) {
    return Error{.what = std::move(what), .where = file.string(), .remedy = remedy};
  };
  const Result<std::string> text = read_whole_file(file, remedy);
  if (!text) return text.error();
  const Json document = Json::parse(*text, nullptr, false);
  if (!document.is_object() || document.value("schema", Json()) != schema)
    return bad("is not a document of the schema " + std::string(schema));
  const auto calls = document.find("calls");
  if (calls == document.end() || !calls->is_object()) return bad("has no object 'calls'");
  UnitCosts costs;
  if (const auto where = document.find("measured_on"); where != document.end() && where->is_string())
    costs.measured_on = where->get<std::string>();
  for (const auto& [name, call] : calls->items()) {
    const auto kind = std::ranges::find(driver_call_names, name);
    if (kind == driver_call_names.end()) return bad("unknown call '" + name + "'");
    const auto fixed = call.is_object() ? seconds_in(call, "fixed_seconds") : std::nullopt;
    const auto per_mib = call.is_object() ? seconds_in(call, "seconds_per_mib") : std::nullopt;
    if (!fixed || !per_mib) return bad("invalid times for '" + name + "'");
    costs.of[static_cast<std::size_t>(kind - driver_call_names.begin())] = {*fixed, *per_mib};
  }
  return costs;
}

Result<void> write_unit_costs(const UnitCosts& costs, const std::filesystem::path& file) {
  Json calls = Json::object();
  for (std::size_t i = 0; i < driver_call_kinds; ++i)
    calls[std::string(driver_call_names[i])] = {{"fixed_seconds", costs.of[i].fixed_seconds},
                                                {"seconds_per_mib", costs.of[i].seconds_per_mib}};
  const Json document{{"schema", schema}, {"measured_on", costs.measured_on}, {"calls", std::move(calls)}};
  return write_output(file, [&](std::ostream& out) -> Result<void> {
    print_json(document, out);
    return {};
  });
}

namespace {

/// The model's error relative to the device: 0.01 means the model is 1 % too high.
double difference(const ReplayResult& model, const ReplayResult& real) {
  if (real.peak_reserved == 0_B) return 0;
  return static_cast<double>(model.peak_reserved.count) / static_cast<double>(real.peak_reserved.count) - 1;
}

std::string percent(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.3f %%", value * 100);
  return text.data();
}

}  // namespace

Result<std::optional<OnDevice>> run_on_device(const GpuArguments& arguments, std::span<const Prepared> heaps,
                                              const std::vector<PolicySpec>& specs, const ReplayOptions& options) {
  if (specs.empty() && arguments.write_unit_costs.empty()) return std::optional<OnDevice>{};
  auto driver = gpu::Driver::load();
  if (!driver) return std::move(driver).error();
  const auto gpu = gpu::Gpu::open(*std::move(driver), arguments.number);
  if (!gpu) return gpu.error();
  if (!arguments.write_unit_costs.empty()) {
    const UnitCosts costs = gpu::measure_unit_costs(**gpu);
    if ((*gpu)->error()) return *(*gpu)->error();
    if (auto written = write_unit_costs(costs, arguments.write_unit_costs); !written) return std::move(written).error();
  }
  if (specs.empty()) return std::optional<OnDevice>{};
  auto results = gpu::replay_on_device(
      **gpu, heaps, specs,
      {.segments_by = arguments.segments_by, .device = options.device, .series_points = options.series_points});
  if (!results) return std::move(results).error();
  return std::optional(OnDevice{.gpu_name = (*gpu)->name(),
                                .cuda_version = (*gpu)->cuda_version(),
                                .specs = specs,
                                .results = *std::move(results)});
}

Json json_of(const OnDevice& real, std::span<const ReplayResult> models,
             const std::function<Json(const ReplayResult&)>& of_replay) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < real.results.size(); ++i) {
    const gpu::OnDeviceResult& result = real.results[i];
    Json run = of_replay(result.replay);
    Json calls = Json::object();
    double seconds = 0;
    for (std::size_t kind = 0; kind < driver_call_kinds; ++kind) {
      const gpu::Tally& tally = result.calls[kind];
      if (tally.calls == 0) continue;
      calls[std::string(driver_call_names[kind])] = {{"calls", tally.calls}, {"seconds", tally.seconds}};
      seconds += tally.seconds;
    }
    run["gpu"] = real.gpu_name;
    run["cuda_version"] = real.cuda_version;
    run["device_peak_bytes"] = result.device_peak.count;
    run["measured_calls"] = calls;
    run["measured_driver_seconds"] = seconds;
    run["model_peak_reserved_bytes"] = models[i].peak_reserved.count;
    run["model_difference"] = difference(models[i], result.replay);
    runs.push_back(std::move(run));
  }
  return runs;
}

void print_table(const OnDevice& real, std::span<const ReplayResult> models) {
  TextTable table({{"run on the GPU"},
                   {"device", Align::right},
                   {"peak reserved", Align::right},
                   {"model", Align::right},
                   {"difference", Align::right},
                   {"failed", Align::right},
                   {"driver calls", Align::right},
                   {"time in calls", Align::right},
                   {"total time", Align::right}});
  const std::size_t heaps = real.results.size() / real.specs.size();
  for (std::size_t i = 0; i < real.results.size(); ++i) {
    const auto& [run, device_peak, calls] = real.results[i];
    std::uint64_t count = 0;
    double seconds = 0;
    for (const gpu::Tally& tally : calls) {
      count += tally.calls;
      seconds += tally.seconds;
    }
    table.add_row({real.specs[i / heaps].text(), text_of(static_cast<std::uint64_t>(run.device)),
                   text_of(run.peak_reserved), text_of(models[i].peak_reserved), percent(difference(models[i], run)),
                   text_of(run.failed_allocations), text_of(count), milliseconds(seconds), milliseconds(run.seconds)});
  }
  std::cout << '\n' << bold("On " + real.gpu_name + ", CUDA " + real.cuda_version) << "\n\n";
  table.print(std::cout, 2);
}

std::string milliseconds(double seconds) { return text_of(seconds * 1e3, 3) + " ms"; }

}  // namespace memreel::cli
