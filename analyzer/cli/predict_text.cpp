#include <cmath>
#include <cstdio>
#include <iostream>

#include "analyzer/cli/console.h"
#include "analyzer/cli/predict_command.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/text_table.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

/// "+1.2 %".
std::string error_text(Bytes predicted, Bytes recorded) {
  const double error = static_cast<double>(predicted.count) / static_cast<double>(std::max(recorded, 1_B).count) - 1;
  if (std::abs(error) < 0.00005) return "exact";
  return (error > 0 ? "+" : "-") + text_of_share(std::abs(error));
}

void print_recordings(const Predictor& predictor, const PredictReport& report) {
  const std::vector<std::string>& names = predictor.options().names;
  TextTable table({{"recorded"},
                   {"peak live", Align::right},
                   {"peak reserved", Align::right},
                   {"predicted from the others", Align::right},
                   {""}});
  for (std::size_t r = 0; r < predictor.recorded().size(); ++r) {
    const LeftOut& left_out = predictor.left_out()[r];
    std::vector<std::string> row{values_text(left_out.at, names), text_of(left_out.recorded.live),
                                 text_of(left_out.recorded.reserved)};
    if (left_out.predicted) {
      row.push_back(text_of(left_out.predicted->reserved));
      row.push_back(error_text(left_out.predicted->reserved, left_out.recorded.reserved));
    }
    table.add_row(std::move(row));
  }
  table.print(std::cout, 2);
  std::cout << '\n'
            << text_of_share(predictor.aligned_share())
            << " of the requested bytes have a counterpart in another recording, "
            << text_of_share(predictor.exact_share()) << " grow by an exact function of "
            << (names.size() == 1 ? names.front() : "the parameters") << '\n'
            << gpu_note(predictor, report) << "\n\n";
}

void print_predictions(const Predictor& predictor, const PredictReport& report) {
  const bool limited = report.device.capacity.has_value();
  std::vector<TableColumn> columns{{"predicted"},
                                   {"peak live", Align::right},
                                   {"peak reserved", Align::right},
                                   {"between", Align::right},
                                   {"and", Align::right}};
  if (limited) columns.push_back({"fits"});
  TextTable table(std::move(columns));
  for (const Prediction& prediction : report.predictions) {
    std::vector<std::string> row{values_text(prediction.at, predictor.options().names), text_of(prediction.peaks.live),
                                 text_of(prediction.peaks.reserved), text_of(prediction.reserved_low),
                                 text_of(prediction.reserved_high)};
    if (limited)
      row.push_back(prediction.first_failure ? "no: " + text_of(prediction.first_failure->requested) + " fail at " +
                                                   text_of(prediction.first_failure->reserved) + " reserved"
                    : prediction.reserved_high > *report.device.capacity ? "likely: the range exceeds the capacity"
                                                                         : "yes");
    table.add_row(std::move(row));
  }
  table.print(std::cout, 2);
  std::cout << '\n';
}

void print_device(const Predictor& predictor, const PredictReport& report) {
  const PredictDevice& device = report.device;
  if (!device.capacity) return;
  std::cout << "capacity " << text_of(*device.capacity);
  if (!device.card.empty())
    std::cout << ": " << device.card << " less " << text_of(device.others) << " for "
              << (device.assumed ? "the CUDA context and libraries, which is assumed" : "other memory seen in use");
  std::cout << '\n';
  const std::string& searched = predictor.options().names[report.which];
  if (report.largest_whole && *report.largest_whole > 0)
    std::cout << bold("the largest " + searched + " that fits is " + memreel::text_of(*report.largest_whole)) << '\n';
  else
    std::cout << bold("no " + searched + " fits") << '\n';
  std::cout << '\n';
}

/// Prints which setting would help.
void print_settings(const Predictor& predictor, const PredictReport& report) {
  bool any = false;
  for (std::size_t i = 0; i < report.predictions.size(); ++i) {
    const PredictSetting& setting = report.settings[i];
    const Prediction& prediction = report.predictions[i];
    if (setting.tried == 0) continue;
    const std::string at = values_text(prediction.at, predictor.options().names);
    const std::string tried = memreel::text_of(setting.tried) + " settings replayed";
    if (setting.conf.empty())
      std::cout << (prediction.first_failure ? "no setting lets " + at + " fit" : "no setting is better for " + at)
                << " (" << tried << ")\n";
    else
      std::cout << at << (prediction.first_failure ? " fits with " : " needs less with ") << bold(setting.conf)
                << ": peak reserved " << text_of(setting.peak_reserved) << " (" << tried << ")\n";
    any = true;
  }
  if (any) std::cout << '\n';
}

/// Prints what would have to shrink, and what need not.
void print_categories(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  const Recording& base = *predictor.recordings()[prediction.base];
  const std::vector<std::string>& names = predictor.options().names;
  std::cout << "live at the peak, by category:\n";
  std::string unit;  // the parameter that differs
  for (std::size_t p = 0; p < names.size(); ++p)
    if (base.at[p] != prediction.at[p]) unit = names[p];
  const bool per_unit = !held.categories.empty() && bytes_per_unit(predictor, prediction, held.categories.front());
  std::vector<TableColumn> columns{{values_text(base.at, names), Align::right},
                                   {values_text(prediction.at, names), Align::right}};
  const std::string each = "each " + unit;
  if (per_unit) columns.push_back({each, Align::right});
  columns.push_back({"category"});
  TextTable table(std::move(columns));
  for (const LiveByCategory& category : held.categories) {
    std::vector<std::string> row{text_of(category.recorded), text_of(category.predicted)};
    if (per_unit) {
      const double growth = bytes_per_unit(predictor, prediction, category).value_or(0);
      row.push_back((growth < 0 ? "-" : "+") +
                    text_of(Bytes{static_cast<std::uint64_t>(std::llround(std::abs(growth)))}));
    }
    row.emplace_back(name_of(category.category));
    table.add_row(std::move(row));
  }
  table.print(std::cout, 2);
  std::cout << '\n';
}

void print_sites(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  constexpr std::size_t most_sites = 8;
  const Recording& base = *predictor.recordings()[prediction.base];
  const std::vector<std::string>& names = predictor.options().names;
  std::cout << "live at the peak, what grows most first:\n";
  TextTable table({{values_text(base.at, names), Align::right},
                   {values_text(prediction.at, names), Align::right},
                   {"where", Align::left, Fit::clipped}});
  Bytes recorded, predicted;
  for (std::size_t s = 0; s < held.sites.size(); ++s) {
    const LiveBySite& site = held.sites[s];
    if (s < most_sites) {
      table.add_row({text_of(site.recorded), text_of(site.predicted), site_label(base.trace.tables, site.stack)});
    } else {
      recorded += site.recorded;
      predicted += site.predicted;
    }
  }
  if (held.sites.size() > most_sites)
    table.add_row({text_of(recorded), text_of(predicted),
                   memreel::text_of(std::uint64_t{held.sites.size() - most_sites}) + " other call stacks"});
  table.print(std::cout, 2);
}

}  // namespace

void print_predict_text(const Predictor& predictor, const PredictReport& report) {
  print_recordings(predictor, report);
  print_predictions(predictor, report);
  for (const std::string& doubt : predictor.doubts()) std::cout << "doubt: " << doubt << '\n';
  if (!predictor.doubts().empty()) std::cout << '\n';
  print_device(predictor, report);
  print_settings(predictor, report);
  if (report.predictions.empty()) return;
  print_categories(predictor, report.predictions.back(), report.held.back());
  print_sites(predictor, report.predictions.back(), report.held.back());
}

}  // namespace memreel::cli
