// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/predict_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <memory>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/predict/sizes.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/tune/search_space.h"
#include "analyzer/replay/tune/tune.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

Result<void> write_predicted_run(const PredictedRun& predicted_run, const std::filesystem::path& output) {
  Result<std::unique_ptr<ByteSink>> sink =
      atomic_file_sink(output, private_mode);  // as of every trace: it has the programs' stacks
  if (!sink) return std::move(sink).error();
  TraceWriter writer(*std::move(sink), predicted_run.trace.header);
  writer.extend_tables(predicted_run.trace.tables);
  for (std::size_t i = 0; i < predicted_run.trace.events.count(); ++i) writer.append(predicted_run.trace.events[i]);
  return writer.finish();
}

void add_prediction(const Predictor& predictor, const Values& at, PredictReport& report) {
  Prediction prediction = predictor.predict(at);
  if (prediction.complete)
    report.predictions.push_back(std::move(prediction));
  else
    report.not_predicted.push_back(at);
}

void find_largest(const Predictor& predictor, const std::vector<Values>& targets, PredictReport& report) {
  for (const Prediction& prediction : report.predictions)
    if (!prediction.first_failure) report.largest = std::max(report.largest.value_or(0), prediction.at[report.which]);
  const Values& largest = predictor.recordings().back()->at;
  const ProgressBar bar("searching for the largest that fits");
  report.largest_whole = predictor.largest_that_fits(targets.empty() ? largest : targets.front(), report.which);
  if (!targets.empty()) return;
  Values at = largest;
  if (*report.largest_whole > 0) {
    at[report.which] = *report.largest_whole;
    report.largest = report.largest_whole;
  }
  add_prediction(predictor, at, report);
}

/// With --tune for every prediction; otherwise for the smallest that does not fit, if the search is short.
void find_settings(const Predictor& predictor, bool all, PredictReport& report) {
  constexpr std::size_t most_requests = 200'000;
  const ProgressBar bar("replaying settings");
  report.settings.resize(report.predictions.size());
  std::optional<std::size_t> smallest;
  for (std::size_t i = 0; i < report.predictions.size(); ++i) {
    const Prediction& prediction = report.predictions[i];
    if (all) report.settings[i] = better_setting(predictor, prediction);
    if (prediction.first_failure && (!smallest || scale(prediction.at, report.predictions[*smallest].at) < 1))
      smallest = i;
  }
  if (!all && smallest && predictor.recordings().back()->requests.rows.size() <= most_requests)
    report.settings[*smallest] = better_setting(predictor, report.predictions[*smallest]);
}

Result<void> write_files(const Predictor& predictor, const PredictReport& report, const PredictArguments& arguments) {
  if (!arguments.output.empty() && report.predictions.empty())
    return Error{.what = "there was no time for a prediction", .where = "-o", .remedy = "allow more with --seconds"};
  if (!arguments.output.empty())
    if (Result<void> written =
            write_predicted_run(predictor.predicted_run(report.predictions.front()), arguments.output);
        !written)
      return written;
  if (arguments.html.empty()) return {};
  return write_output(arguments.html, [&](std::ostream& out) -> Result<void> {
    write_predict_html(predictor, report, out);
    return {};
  });
}

Exit run_predict(const PredictArguments& arguments) {
  Result<PredictInputs> inputs = open_inputs(arguments);
  if (!inputs) return fail(inputs.error());
  PredictReport report;
  Result<PredictDevice> device = predict_device(arguments.capacity, inputs->recordings, !arguments.heap.empty());
  if (!device) return fail(device.error());
  report.device = *std::move(device);
  const Recording& any = inputs->recordings.front();
  report.heap = any.trace.tables[any.trace.tables[any.heap].name];
  report.is_alone = !arguments.heap.empty();
  const std::vector<std::string> names = inputs->names;
  const auto deadline = deadline_after(arguments.seconds);
  report.seconds = arguments.seconds;
  Result<Predictor> predictor = [&] {
    const ProgressBar bar("learning from the recordings");
    return Predictor::make(std::move(inputs->recordings), {.names = names,
                                                           .policy = std::move(inputs->policy),
                                                           .capacity = report.device.shared(),
                                                           .gpu = report.device.gpu,
                                                           .deadline = deadline});
  }();
  if (!predictor) return fail(predictor.error());

  const Values largest = predictor->recordings().back()->at;
  Result<std::vector<Values>> targets = parse_targets(arguments.to, names, largest);
  if (!targets) return fail(targets.error());
  if (arguments.to.empty() && !arguments.capacity.empty()) targets->clear();
  if (arguments.to.empty() && arguments.capacity.empty())
    return fail({.what = "nothing to predict", .remedy = "give --to " + names.front() + "=N, --capacity, or both"});
  if (!arguments.output.empty() && targets->size() > 1)
    return fail({.what = "one trace holds one prediction", .where = "-o", .remedy = "give one value with --to"});

  for (const Values& at : *targets)
    if (const Result<void> possible = predictor->can_predict(at); !possible) return fail(possible.error());
  report.which = searched_parameter(*targets, largest);
  for (ProgressBar bar("predicting"); const Values& at : *targets) {
    add_prediction(*predictor, at, report);
    bar.update(report.predictions.size() + report.not_predicted.size(), targets->size());
  }
  if (report.device.capacity) find_largest(*predictor, *targets, report);
  find_settings(*predictor, arguments.tune, report);
  report.is_stopped = std::chrono::steady_clock::now() > deadline;
  for (const Prediction& prediction : report.predictions) {
    report.held.push_back(predictor->held(prediction));
    report.uncertain.push_back(predictor->uncertain(prediction));
  }
  if (const Result<void> written = write_files(*predictor, report, arguments); !written) return fail(written.error());
  if (arguments.json)
    print_predict_json(*predictor, report);
  else if (!take_standard_output(std::array{arguments.output, arguments.html}))
    print_predict_text(*predictor, report);
  return Exit::done;
}

}  // namespace

void add_predict_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand(
      "predict", "Predict what a larger run needs, from recordings of small ones, and what fits on a card");
  const auto arguments = std::make_shared<PredictArguments>();
  command
      ->add_option("RECORDING", arguments->recordings,
                   "NAME=VALUE:FILE, e.g. batch=4:snapshot.pickle, or NAME=VALUE,NAME=VALUE:FILE; at least one more "
                   "than there are parameters")
      ->required();
  command
      ->add_option("--to", arguments->to,
                   "Values to predict, e.g. batch=8,16,32; with several parameters, all combinations")
      ->allow_extra_args(false);
  std::string known;
  for (const Card& card : cards()) known += (known.empty() ? "" : " ") + std::string(card.name);
  command->add_option(
      "--capacity", arguments->capacity,
      "Memory of the device, e.g. 24GiB, which others are on, too, as recorded; or a card, less what it needs for "
      "other things; shows which values fit");
  add_heap_option(*command, arguments->heap, "Predict", ", as if it had the device for itself");
  command->add_option("--policy", arguments->policy, "Allocator of the predicted run, as in replay [the recorded one]");
  command->add_option("-o,--output", arguments->output,
                      "Write the predicted run as a trace, which every command reads");
  command->add_option("--html", arguments->html, "Also write an HTML page with the chart");
  command->add_flag("--tune", arguments->tune,
                    "Find the best setting for every predicted run, not only for the first that does not fit");
  add_seconds_option(*command, arguments->seconds);
  add_memory_option(*command, arguments->memory_limit);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.predict/1) instead of text");
  command->footer("Cards: " + known +
                  "\n\n"
                  "Examples:\n"
                  "  memreel predict batch=1:a.pickle batch=2:b.pickle batch=4:c.pickle --to batch=8,16,32\n"
                  "  memreel predict batch=1:a.pickle batch=2:b.pickle batch=4:c.pickle --capacity H100-80GB\n"
                  "  memreel predict seq=256:a.reel seq=512:b.reel seq=768:c.reel --to seq=4096 -o long.reel\n"
                  "  memreel predict batch=1:a.pickle batch=2:b.pickle batch=4:c.pickle --to batch=8,16,32 --capacity "
                  "L4 --html fits.html\n"
                  "  memreel predict batch=1,seq=256:a.reel batch=2,seq=256:b.reel batch=1,seq=512:c.reel "
                  "--to batch=4,seq=1024");
  command->callback([arguments, &exit] { exit = run_predict(*arguments); });
}

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

/// Those of PyTorch's allocator, in words; else empty.
std::string settings_of(const Trace& trace, const std::vector<Prepared>& heaps) {
  const std::optional<PolicySpec> recorded = recorded_policy(trace, heaps);
  if (!recorded || !has_settings(*recorded)) return {};
  const Result<BoundPolicy> bound = bind_policy(*recorded);
  return bound ? name_of_settings(conf_of(bound->spec)) : std::string();
}

}  // namespace

Result<PredictInputs> open_inputs(const PredictArguments& arguments) {
  PredictInputs inputs;
  Result<std::vector<RecordingArgument>> parsed = parse_recordings(arguments.recordings);
  if (!parsed) return std::move(parsed).error();
  inputs.names = parsed->front().names;
  std::vector<std::filesystem::path> files;
  for (const RecordingArgument& argument : *parsed) files.push_back(argument.file);
  const std::array outputs{arguments.output, arguments.html};
  if (arguments.json)
    if (Result<void> room = leave_room_for_json(outputs); !room) return std::move(room).error();
  if (Result<void> differ = must_differ(files, outputs); !differ) return std::move(differ).error();
  bound_memory(files, arguments.memory_limit);
  Values largest;
  for (RecordingArgument& argument : *parsed) {
    Result<Trace> trace = open_completed(argument.file, arguments.memory_limit);
    if (!trace) return std::move(trace).error();
    std::vector<Prepared> heaps = arguments.heap.empty() ? program_heaps(*trace) : prepare(*trace);
    if (const Result<void> left = leave_heap(trace->tables, arguments.heap, heaps); !left) return left.error();
    const Result<HeapId> heap = busiest_heap(*trace, heaps, argument.file);
    if (!heap) return heap.error();
    if (largest.empty() || scale(argument.at, largest) >= 1) {  // settings are those of the largest
      largest = argument.at;
      Result<PolicySpec> policy = policy_of(*trace, heaps, arguments, argument.file);
      if (!policy) return std::move(policy).error();
      inputs.policy = *std::move(policy);
    }
    std::string settings = arguments.policy.empty() ? settings_of(*trace, heaps) : std::string();
    std::vector<HeldFrom> beside;
    if (arguments.heap.empty() && !arguments.capacity.empty()) beside = beside_heap(*trace, *heap);
    inputs.recordings.push_back({.file = argument.file,
                                 .at = std::move(argument.at),
                                 .trace = *std::move(trace),
                                 .heap = *heap,
                                 .settings = std::move(settings),
                                 .beside = std::move(beside)});
  }
  return inputs;
}

PredictSetting better_setting(const Predictor& predictor, const Prediction& prediction) {
  const PredictOptions& options = predictor.options();
  if (options.policy.name != "torch.native") return {};
  if (options.capacity && prediction.peaks.live > *options.capacity) return {};
  const PredictedRun predicted_run = predictor.predicted_run(prediction);
  std::vector<Prepared> heaps = prepare(predicted_run.trace);
  std::erase_if(heaps, [&](const Prepared& heap) { return heap.heap != predicted_run.heap; });
  if (std::chrono::steady_clock::now() > options.deadline) return {};
  TuneOptions tuning{.device = DeviceModel{}, .deadline = options.deadline};
  if (!heaps.empty() && !predicted_run.beside.empty()) {
    number_from_one(heaps);
    tuning.around.emplace().beside[heaps.front().device] = predicted_run.beside;
  }
  if (options.capacity) tuning.device = {.kind = DeviceModel::Kind::capacity, .capacity = *options.capacity};
  const Result<TuneResult> result = tune(heaps, options.policy, tuning);
  if (!result) return {};
  PredictSetting setting{.tried = result->tried};
  if (const Outcome* const best = result->recommended()) {
    setting.conf = conf_of(best->policy);
    setting.peak_reserved = best->peak_reserved();
  }
  return setting;
}

std::optional<double> bytes_per_unit(const Predictor& predictor, const Prediction& prediction,
                                     const LiveByCategory& held) {
  const Values& base = predictor.recordings()[prediction.base]->at;
  std::optional<double> units;
  for (std::size_t p = 0; p < base.size(); ++p) {
    if (base[p] == prediction.at[p]) continue;
    if (units) return std::nullopt;
    units = static_cast<double>(prediction.at[p]) - static_cast<double>(base[p]);
  }
  if (!units) return std::nullopt;
  return (static_cast<double>(held.predicted.count) - static_cast<double>(held.recorded.count)) / *units;
}

std::string gpu_note(const Predictor& predictor, const PredictReport& report) {
  const GpuTraits& gpu = predictor.gpu();
  const std::string known = report.device.gpu      ? report.device.card
                            : predictor.gpu_seen() ? "as the recordings show"
                                                   : "assumed: the recordings don't show it";
  return "scratch memory of kernels as on a GPU with " + memreel::text_of(gpu.multiprocessors) +
         " multiprocessors and compute capability " + std::to_string(gpu.compute_capability / 10) + "." +
         std::to_string(gpu.compute_capability % 10) + " (" + known + ")";
}

std::string values_text(const Values& at, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t p = 0; p < names.size(); ++p) text += (p > 0 ? ", " : "") + names[p] + " " + memreel::text_of(at[p]);
  return text;
}

}  // namespace memreel::cli

namespace memreel {
namespace {

bool may_fail(const PredictionRow& row) {
  const Prediction& prediction = row.prediction;
  return prediction.reserved_high > prediction.peaks.reserved &&
         prediction.device_peak + (prediction.reserved_high - prediction.peaks.reserved) > *row.capacity;
}

/// Under a capacity.
std::string fit_text(const PredictionRow& row) {
  if (const auto& failure = row.prediction.first_failure) {
    const std::string beside =
        row.prediction.beside > 0_B ? ", with " + text_of(row.prediction.beside) + " beside it" : "";
    if (failure->requested == 0_B) return "no: others need more than " + text_of(failure->reserved) + " reserved leave";
    return "no: " + text_of(failure->requested) + " fail at " + text_of(failure->reserved) + " reserved" + beside;
  }
  return may_fail(row) ? "likely: the range exceeds the capacity" : "yes";
}

Cell predicted_peak(const LeftOutRow& row, Bytes Peaks::*peak) {
  return row.left_out.predicted ? Cell((*row.left_out.predicted).*peak) : Cell();
}

Cell category_of(const Tables& /*tables*/, const LiveByCategory& row) { return std::string(name_of(row.category)); }

Cell requests_of(const Tables& /*tables*/, const UncertainSite& site) { return std::uint64_t{site.requests}; }

}  // namespace

const std::array<ResultField<PredictionRow>, 10> FieldsOf<PredictionRow>::all{{
    {"", "predicted", Unit::text, "Values of the parameters",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.at; }},
    {"peak_live_bytes", "peak live", Unit::bytes, "Peak of live bytes of the predicted run",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.prediction.peaks.live; }},
    {"peak_allocated_bytes", "", Unit::bytes, "Peak of allocated bytes of the predicted run",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.prediction.peaks.allocated; }},
    {"peak_reserved_bytes", "peak reserved", Unit::bytes, "Peak of reserved bytes of the predicted run",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.prediction.peaks.reserved; }},
    {"peak_reserved_low_bytes", "between", Unit::bytes, "Lower end of the range in which the reserved peak lies",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.prediction.reserved_low; }},
    {"peak_reserved_high_bytes", "and", Unit::bytes, "Upper end of that range",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.prediction.reserved_high; }},
    {"beside_bytes", "", Unit::bytes,
     "What others hold of the device when a request fails first, else at the device's peak",
     [](const Tables&, const PredictionRow& row) -> Cell {
       return row.capacity ? Cell(row.prediction.beside) : Cell();
     }},
    {"fits", "", Unit::flag, "Whether every request is served within the capacity",
     [](const Tables&, const PredictionRow& row) -> Cell {
       return row.capacity ? Cell(!row.prediction.first_failure) : Cell();
     }},
    {"verdict", "", Unit::text, "The same in the light of the range",
     [](const Tables&, const PredictionRow& row) -> Cell {
       if (!row.capacity) return {};
       return std::string(row.prediction.first_failure ? "no" : may_fail(row) ? "likely" : "yes");
     }},
    {"", "fits", Unit::text, "The same with the first request that is not served",
     [](const Tables&, const PredictionRow& row) -> Cell { return row.capacity ? Cell(fit_text(row)) : Cell(); }},
}};

const std::array<ResultField<LeftOutRow>, 7> FieldsOf<LeftOutRow>::all{{
    {"", "recorded", Unit::text, "Values of the parameters",
     [](const Tables&, const LeftOutRow& row) -> Cell { return row.at; }},
    {"recorded_peak_live_bytes", "peak live", Unit::bytes, "Peak of live bytes in the recording that was left out",
     [](const Tables&, const LeftOutRow& row) -> Cell { return row.left_out.recorded.live; }},
    {"recorded_peak_allocated_bytes", "", Unit::bytes, "Peak of allocated bytes in the recording that was left out",
     [](const Tables&, const LeftOutRow& row) -> Cell { return row.left_out.recorded.allocated; }},
    {"recorded_peak_reserved_bytes", "peak reserved", Unit::bytes,
     "Peak of reserved bytes in the recording that was left out",
     [](const Tables&, const LeftOutRow& row) -> Cell { return row.left_out.recorded.reserved; }},
    {"peak_live_bytes", "", Unit::bytes, "Peak of live bytes predicted from the others",
     [](const Tables&, const LeftOutRow& row) -> Cell { return predicted_peak(row, &Peaks::live); }},
    {"peak_allocated_bytes", "", Unit::bytes, "Peak of allocated bytes predicted from the others",
     [](const Tables&, const LeftOutRow& row) -> Cell { return predicted_peak(row, &Peaks::allocated); }},
    {"peak_reserved_bytes", "predicted from the others", Unit::bytes,
     "Peak of reserved bytes predicted from the others",
     [](const Tables&, const LeftOutRow& row) -> Cell { return predicted_peak(row, &Peaks::reserved); }},
}};

const std::array<ResultField<LiveBySite>, 3> FieldsOf<LiveBySite>::all{{
    {"recorded_bytes", "recorded", Unit::bytes, "Live at the peak of the recording",
     [](const Tables&, const LiveBySite& row) -> Cell { return row.recorded; }},
    {"predicted_bytes", "predicted", Unit::bytes, "Live at the peak of the predicted run",
     [](const Tables&, const LiveBySite& row) -> Cell { return row.predicted; }},
    {"", "where", Unit::text, "Where the memory is allocated",
     [](const Tables& tables, const LiveBySite& row) -> Cell { return site_label(tables, row.stack); }},
}};

// The category comes first in JSON, and last in tables.
const std::array<ResultField<LiveByCategory>, 4> FieldsOf<LiveByCategory>::all{{
    {"category", "", Unit::text, "What the memory is for, as in docs/categories.md", category_of},
    {"recorded_bytes", "recorded", Unit::bytes, "Live at the peak of the recording",
     [](const Tables&, const LiveByCategory& row) -> Cell { return row.recorded; }},
    {"predicted_bytes", "predicted", Unit::bytes, "Live at the peak of the predicted run",
     [](const Tables&, const LiveByCategory& row) -> Cell { return row.predicted; }},
    {"", "category", Unit::text, "What the memory is for",
     [](const Tables&, const LiveByCategory& row) -> Cell { return std::string(words_of(row.category)); }},
}};

// The number of requests comes first in JSON, and last of the numbers in tables.
const std::array<ResultField<UncertainSite>, 5> FieldsOf<UncertainSite>::all{{
    {"requests", "", Unit::count, "Requests in the recording that the prediction is made from", requests_of},
    {"least_bytes", "at least", Unit::bytes, "What the least certain of them takes at least",
     [](const Tables&, const UncertainSite& site) -> Cell { return site.least; }},
    {"most_bytes", "at most", Unit::bytes, "What it takes at most",
     [](const Tables&, const UncertainSite& site) -> Cell { return site.most; }},
    {"", "requests", Unit::count, "Requests in the recording that the prediction is made from", requests_of},
    {"", "where", Unit::text, "Where the memory is allocated",
     [](const Tables& tables, const UncertainSite& site) -> Cell { return site_label(tables, site.stack); }},
}};

}  // namespace memreel
