#include "analyzer/cli/on_device.h"

#include <array>
#include <cstdio>
#include <iostream>
#include <utility>

#include "analyzer/cli/console.h"
#include "analyzer/cli/unit_costs_file.h"
#include "analyzer/device/measure_costs.h"
#include "analyzer/report/text_table.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
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
