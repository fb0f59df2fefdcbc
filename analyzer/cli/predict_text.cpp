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

std::string value_text(const Values& at, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t p = 0; p < names.size(); ++p) text += (p > 0 ? ", " : "") + names[p] + " " + memreel::text_of(at[p]);
  return text;
}

/// "+1.2 %".
std::string error_text(Bytes predicted, Bytes recorded) {
  const double error = static_cast<double>(predicted.count) / static_cast<double>(std::max(recorded, 1_B).count) - 1;
  if (std::abs(error) < 0.00005) return "exact";
  return (error > 0 ? "+" : "-") + text_of_share(std::abs(error));
}

void print_recordings(const Predictor& predictor) {
  const std::vector<std::string>& names = predictor.options().names;
  TextTable table({{"recorded"},
                   {"peak live", Align::right},
                   {"peak reserved", Align::right},
                   {"predicted from the others", Align::right},
                   {""}});
  for (std::size_t r = 0; r < predictor.recorded().size(); ++r) {
    const LeftOut& left_out = predictor.left_out()[r];
    std::vector<std::string> row{value_text(left_out.at, names), text_of(left_out.recorded.live),
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
            << (names.size() == 1 ? names.front() : "the parameters") << "\n\n";
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
    std::vector<std::string> row{value_text(prediction.at, predictor.options().names), text_of(prediction.peaks.live),
                                 text_of(prediction.peaks.reserved), text_of(prediction.reserved_low),
                                 text_of(prediction.reserved_high)};
    if (limited)
      row.push_back(prediction.first_failure ? "no: " + text_of(prediction.first_failure->requested) + " fail at " +
                                                   text_of(prediction.first_failure->reserved) + " reserved"
                                             : "yes");
    table.add_row(std::move(row));
  }
  table.print(std::cout, 2);
  std::cout << '\n';
}

void print_device(const PredictReport& report) {
  const PredictDevice& device = report.device;
  if (!device.capacity) return;
  std::cout << "capacity " << text_of(*device.capacity);
  if (!device.card.empty())
    std::cout << ": " << device.card << " less " << text_of(device.others) << " for "
              << (device.assumed ? "the CUDA context and libraries, which is assumed" : "what else was seen in use");
  std::cout << '\n';
  if (report.largest_whole && *report.largest_whole > 0)
    std::cout << bold("the largest " + report.searched + " that fits is " + memreel::text_of(*report.largest_whole))
              << '\n';
  else
    std::cout << bold("no " + report.searched + " fits") << '\n';
  std::cout << '\n';
}

/// What would have to shrink, and what need not.
void print_growth(const Predictor& predictor, const Prediction& prediction) {
  constexpr std::size_t most_sites = 8;
  const Recording& base = *predictor.recordings()[prediction.base];
  const std::vector<std::string>& names = predictor.options().names;
  std::cout << "live at the peak, what grows most first:\n";
  TextTable table(
      {{value_text(base.at, names), Align::right}, {value_text(prediction.at, names), Align::right}, {"where"}});
  const std::vector<SiteGrowth> sites = predictor.growth(prediction);
  Bytes recorded, predicted;
  for (std::size_t s = 0; s < sites.size(); ++s) {
    if (s < most_sites)
      table.add_row(
          {text_of(sites[s].recorded), text_of(sites[s].predicted), site_label(base.trace.tables, sites[s].stack)});
    else {
      recorded += sites[s].recorded;
      predicted += sites[s].predicted;
    }
  }
  if (sites.size() > most_sites)
    table.add_row({text_of(recorded), text_of(predicted),
                   memreel::text_of(std::uint64_t{sites.size() - most_sites}) + " other call stacks"});
  table.print(std::cout, 2);
}

}  // namespace

void print_predict_text(const Predictor& predictor, const PredictReport& report) {
  print_recordings(predictor);
  print_predictions(predictor, report);
  print_device(report);
  if (!report.predictions.empty()) print_growth(predictor, report.predictions.back());
}

}  // namespace memreel::cli
