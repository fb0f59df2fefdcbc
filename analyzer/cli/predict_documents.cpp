// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iostream>
#include <ostream>

#include "analyzer/cli/output.h"
#include "analyzer/cli/predict_command.h"
#include "analyzer/describe/fields.h"
#include "analyzer/describe/html/charts.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

/// The titles of columns that are the values of the recording and of the prediction.
struct Titles {
  std::string recorded, predicted;

  std::string of(std::string_view title) const {
    const bool replaced = !predicted.empty();
    if (replaced && title == "recorded") return recorded;
    return replaced && title == "predicted" ? predicted : std::string(title);
  }
};

template <class Row>
std::vector<TableColumn> text_columns(Fit fit = Fit::wrapped, const Titles& titles = {}) {
  std::vector<TableColumn> columns;
  for_each_column<Row>([&](const ResultField<Row>& field) {
    columns.push_back({titles.of(field.title), field.is_number() ? Align::right : Align::left, fit});
  });
  return columns;
}

/// "+1.2 %".
std::string error_text(Bytes predicted, Bytes recorded) {
  const double error = static_cast<double>(predicted.count) / static_cast<double>(std::max(recorded, 1_B).count) - 1;
  if (std::abs(error) < 0.00005) return "exact";
  return (error > 0 ? "+" : "-") + text_of_share(std::abs(error));
}

void print_recordings(const Predictor& predictor, const PredictReport& report) {
  const std::vector<std::string>& names = predictor.options().names;
  std::vector<TableColumn> columns = text_columns<LeftOutRow>();
  columns.push_back({""});
  TextTable table(std::move(columns));
  for (const LeftOut& left_out : predictor.left_out()) {
    std::vector<std::string> row = cells_of(Tables{}, LeftOutRow{left_out, values_text(left_out.at, names)});
    if (left_out.predicted) row.push_back(error_text(left_out.predicted->reserved, left_out.recorded.reserved));
    table.add_row(std::move(row));
  }
  table.print(std::cout, 2);
  std::cout << '\n'
            << wrapped(text_of_share(predictor.aligned_share()) +
                           " of the requested bytes have a counterpart in another recording, " +
                           text_of_share(predictor.exact_share()) + " grow by an exact function of " +
                           (names.size() == 1 ? names.front() : "the parameters"),
                       0)
            << wrapped(gpu_note(predictor, report), 0) << '\n';
}

void print_predictions(const Predictor& predictor, const PredictReport& report) {
  if (report.predictions.empty()) return;
  std::vector<TableColumn> columns = text_columns<PredictionRow>();
  if (!report.device.capacity) columns.pop_back();  // none fits or does not
  TextTable table(std::move(columns));
  for (const Prediction& prediction : report.predictions)
    table.add_row(cells_of(Tables{}, PredictionRow{prediction, values_text(prediction.at, predictor.options().names),
                                                   report.device.shared()}));
  table.print(std::cout, 2);
  std::cout << '\n';
}

/// What of the device the allocator can't have, and how that is known.
std::string capacity_text(const PredictReport& report) {
  const PredictDevice& device = report.device;
  const Bytes beside = device.others - device.context;
  std::string text;
  if (device.context > 0_B)
    text = " less " + text_of(device.context) + " for " +
           (device.assumed ? "the CUDA context and libraries, which is assumed" : "other memory seen in use");
  if (beside > 0_B)
    text += (text.empty() ? " less " : " and ") + text_of(beside) +
            " that others hold in the recordings when the device holds most; at each instant, what they hold then is "
            "taken off";
  const std::string whole = device.card.empty() ? text_of(device.memory) : device.card;
  if (beside == 0_B) {
    if (text.empty()) text = ", all of it for " + report.heap;
    text += report.is_alone     ? ", which has the device for itself (--heap)"
            : device.has_driver ? "; others hold nothing in the recordings"
                                : ": the recordings lack the driver's calls, so what else is on the device is unknown";
  }
  return whole + text;
}

void print_device(const Predictor& predictor, const PredictReport& report) {
  const PredictDevice& device = report.device;
  if (!device.capacity) return;
  const std::string size = text_of(*device.capacity);
  std::string of = capacity_text(report);
  of.starts_with(size + ",") ? of.erase(0, size.size()) : of.insert(0, ": ");
  std::cout << wrapped("capacity " + size + of, 0);
  const std::string& searched = predictor.options().names[report.which];
  if (report.largest_whole && *report.largest_whole > 0)
    std::cout << bold("the largest " + searched + " that fits is " + memreel::text_of(*report.largest_whole)) << '\n';
  else
    std::cout << bold("no " + searched + (report.is_stopped ? " that fits was found" : " fits")) << '\n';
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
    const std::string tried = counted(setting.tried, "setting") + " replayed";
    if (setting.conf.empty())
      std::cout << wrapped(
          (prediction.first_failure ? "no setting lets " + at + " fit" : "no setting is better for " + at) + " (" +
              tried + ")",
          0);
    else
      std::cout << wrapped(at + (prediction.first_failure ? " fits with " : " needs less with ") + setting.conf +
                               ": peak reserved " + text_of(setting.peak_reserved) + " (" + tried + ")",
                           0);
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
  std::vector<TableColumn> columns =
      text_columns<LiveByCategory>(Fit::wrapped, {values_text(base.at, names), values_text(prediction.at, names)});
  if (per_unit) columns.insert(columns.end() - 1, TableColumn{"each " + unit, Align::right});
  TextTable table(std::move(columns));
  for (const LiveByCategory& category : held.categories) {
    std::vector<std::string> row = cells_of(base.trace.tables, category);
    if (per_unit) {
      const double growth = bytes_per_unit(predictor, prediction, category).value_or(0);
      row.insert(row.end() - 1, text_of_growth(growth));
    }
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
  TextTable table(
      text_columns<LiveBySite>(Fit::clipped, {values_text(base.at, names), values_text(prediction.at, names)}));
  Bytes recorded, predicted;
  for (std::size_t s = 0; s < held.sites.size(); ++s) {
    const LiveBySite& site = held.sites[s];
    if (s < most_sites) {
      table.add_row(cells_of(base.trace.tables, site));
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

constexpr std::size_t most_uncertain_sites = 8;

std::span<const UncertainSite> listed_sites(const std::vector<UncertainSite>& uncertain) {
  return std::span(uncertain).first(std::min(most_uncertain_sites, uncertain.size()));
}

std::string what_is_uncertain(const Prediction& prediction, const std::vector<std::string>& names) {
  return "sizes that follow no function at " + values_text(prediction.at, names) +
         ", as a library chooses its algorithm; of one request";
}

void print_uncertain(const Predictor& predictor, const Prediction& prediction,
                     const std::vector<UncertainSite>& uncertain) {
  if (uncertain.empty()) return;
  std::cout << '\n' << wrapped(what_is_uncertain(prediction, predictor.options().names) + ":", 0) << '\n';
  TextTable table(text_columns<UncertainSite>(Fit::clipped));
  const Tables& tables = predictor.recordings()[prediction.base]->trace.tables;
  for (const UncertainSite& site : listed_sites(uncertain)) table.add_row(cells_of(tables, site));
  if (uncertain.size() > most_uncertain_sites)
    table.add_row(
        {"", "", "", memreel::text_of(std::uint64_t{uncertain.size() - most_uncertain_sites}) + " other call stacks"});
  table.print(std::cout, 2);
}

void print_what_was_stopped(const Predictor& predictor, const PredictReport& report) {
  if (!report.is_stopped) return;
  std::string left_out;
  for (const Values& at : report.not_predicted)
    left_out += (left_out.empty() ? ": not predicted: " : "; ") + values_text(at, predictor.options().names);
  std::cout << wrapped("replays ended when " + text_of_seconds(report.seconds) + " had passed (--seconds)" + left_out,
                       0)
            << '\n';
}

}  // namespace

void print_predict_text(const Predictor& predictor, const PredictReport& report) {
  print_recordings(predictor, report);
  print_predictions(predictor, report);
  for (const std::string& doubt : predictor.doubts()) std::cout << wrapped("doubt: " + doubt, 0);
  if (!predictor.doubts().empty()) std::cout << '\n';
  print_device(predictor, report);
  print_settings(predictor, report);
  print_what_was_stopped(predictor, report);
  if (report.predictions.empty()) return;
  print_categories(predictor, report.predictions.back(), report.held.back());
  print_sites(predictor, report.predictions.back(), report.held.back());
  print_uncertain(predictor, report.predictions.back(), report.uncertain.back());
}

namespace {

/// The value of a single parameter, or an object of several.
Json json_of(const Values& at, const std::vector<std::string>& names) {
  if (at.size() == 1) return at.front();
  Json json = Json::object();
  for (std::size_t p = 0; p < names.size(); ++p) json[names[p]] = at[p];
  return json;
}

void add_peaks(Json& json, const Peaks& peaks) {
  json["peak_live_bytes"] = peaks.live.count;
  json["peak_allocated_bytes"] = peaks.allocated.count;
  json["peak_reserved_bytes"] = peaks.reserved.count;
}

double error_of(Bytes predicted, Bytes recorded) {
  return recorded == 0_B ? 0 : static_cast<double>(predicted.count) / static_cast<double>(recorded.count) - 1;
}

Json json_of(const LeftOut& left_out, const std::vector<std::string>& names) {
  Json json{{"value", json_of(left_out.at, names)}};
  json.update(json_of_fields(Tables{}, LeftOutRow{left_out, {}}));
  const auto error = [&](Bytes Peaks::*peak) {
    return left_out.predicted ? Json(error_of((*left_out.predicted).*peak, left_out.recorded.*peak)) : Json(nullptr);
  };
  json["live_error"] = error(&Peaks::live);
  json["reserved_error"] = error(&Peaks::reserved);
  return json;
}

template <class Site>
Json json_of_site(const Tables& tables, const Site& site) {
  Json row{{"stack", json_of_stack(tables, site.stack)}};
  row.update(json_of_fields(tables, site));
  return row;
}

Json json_of_sites(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  constexpr std::size_t most_sites = 10;
  const Tables& tables = predictor.recordings()[prediction.base]->trace.tables;
  Json sites = Json::array();
  for (const LiveBySite& site : held.sites) {
    if (sites.size() == most_sites) break;
    sites.push_back(json_of_site(tables, site));
  }
  return sites;
}

Json json_of(const std::vector<UncertainSite>& uncertain, const Tables& tables) {
  Json sites = Json::array();
  for (const UncertainSite& site : listed_sites(uncertain)) sites.push_back(json_of_site(tables, site));
  return sites;
}

Json json_of_categories(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  Json categories = Json::array();
  for (const LiveByCategory& category : held.categories) {
    const std::optional<double> growth = bytes_per_unit(predictor, prediction, category);
    Json row = json_of_fields(Tables{}, category);
    row["bytes_per_unit"] = growth ? Json(*growth) : Json(nullptr);
    categories.push_back(std::move(row));
  }
  return categories;
}

Json json_of(const PredictSetting& setting, const PredictReport& report) {
  if (setting.conf.empty()) return nullptr;
  return {{"setting", setting.conf},
          {"peak_reserved_bytes", setting.peak_reserved.count},
          {"fits", report.device.capacity ? Json(true) : Json(nullptr)}};
}

}  // namespace

void print_predict_json(const Predictor& predictor, const PredictReport& report) {
  const std::vector<std::string>& names = predictor.options().names;
  Json recordings = Json::array();
  for (std::size_t r = 0; r < predictor.recordings().size(); ++r) {
    const Recording& recording = *predictor.recordings()[r];
    Json json{{"value", json_of(recording.at, names)}, {"trace", recording.file.string()}};
    add_peaks(json, predictor.recorded()[r]);
    json["requests"] = recording.requests.rows.size();
    recordings.push_back(std::move(json));
  }
  Json left_out = Json::array();
  for (const LeftOut& one : predictor.left_out()) left_out.push_back(json_of(one, names));
  Json predictions = Json::array();
  Json not_predicted = Json::array();
  for (const Values& at : report.not_predicted) not_predicted.push_back(json_of(at, names));
  for (std::size_t i = 0; i < report.predictions.size(); ++i) {
    const Prediction& prediction = report.predictions[i];
    Json json{{"value", json_of(prediction.at, names)}};
    json.update(json_of_fields(Tables{}, PredictionRow{prediction, {}, report.device.shared()}));
    json["first_failure"] = cli::json_of_failure(prediction.first_failure);
    json["growth"] = json_of_sites(predictor, prediction, report.held[i]);
    json["categories"] = json_of_categories(predictor, prediction, report.held[i]);
    json["uncertain"] = json_of(report.uncertain[i], predictor.recordings()[prediction.base]->trace.tables);
    json["settings_tried"] = report.settings[i].tried;
    json["setting"] = json_of(report.settings[i], report);
    predictions.push_back(std::move(json));
  }
  const PredictDevice& device = report.device;
  const auto or_null = [](const std::optional<std::uint64_t>& value) {
    return value && *value > 0 ? Json(*value) : Json(nullptr);
  };
  const PolicySpec& policy = predictor.options().policy;
  print_json({{"schema", "memreel.predict/1"},
              {"parameter", names.size() == 1 ? Json(names.front()) : Json(names)},
              {"recordings", std::move(recordings)},
              {"aligned_share", predictor.aligned_share()},
              {"exact_share", predictor.exact_share()},
              {"leave_one_out", std::move(left_out)},
              {"doubts", predictor.doubts()},
              {"capacity_bytes", device.capacity ? Json(device.capacity->count) : Json(nullptr)},
              {"device_bytes", device.capacity ? Json(device.memory.count) : Json(nullptr)},
              {"driver_recorded", device.capacity ? Json(device.has_driver) : Json(nullptr)},
              {"card", device.card.empty() ? Json(nullptr) : Json(device.card)},
              {"other_bytes", device.capacity ? Json(device.others.count) : Json(nullptr)},
              {"other_bytes_assumed", device.capacity ? Json(device.assumed) : Json(nullptr)},
              {"gpu",
               {{"multiprocessors", predictor.gpu().multiprocessors},
                {"threads_per_multiprocessor", predictor.gpu().threads},
                {"compute_capability", predictor.gpu().compute_capability},
                {"assumed", !device.gpu && !predictor.gpu_seen()}}},
              {"predictions", std::move(predictions)},
              {"not_predicted", std::move(not_predicted)},
              {"stopped_by", report.is_stopped ? Json("seconds") : Json(nullptr)},
              {"largest_that_fits", or_null(report.largest ? report.largest : report.largest_whole)},
              {"largest_whole_number_that_fits", or_null(report.largest_whole)},
              {"policy", policy.name},
              {"params", policy.parameters}});
}

namespace {

constexpr std::size_t most_growths = 12;
constexpr std::size_t most_of_a_place = 160;  // bytes
constexpr std::string_view no = "no";

// Pages have numbers first.

/// `titles`: already escaped; must outlive the table.
template <class Row>
std::vector<HtmlTable::Column> html_columns(const Titles* titles = nullptr) {
  std::vector<HtmlTable::Column> columns;
  for (const bool numbers : {true, false})
    for_each_column<Row>([&](const ResultField<Row>& field) {
      if (field.is_number() != numbers) return;
      columns.push_back({titles != nullptr && field.title == "recorded"    ? std::string_view(titles->recorded)
                         : titles != nullptr && field.title == "predicted" ? std::string_view(titles->predicted)
                                                                           : field.title,
                         numbers});
    });
  return columns;
}

template <class Row>
std::vector<std::string> html_cells(const Tables& tables, const Row& row, std::size_t most = std::string::npos) {
  std::vector<std::string> cells;
  for (const bool numbers : {true, false})
    for_each_column<Row>([&](const ResultField<Row>& field) {
      if (field.is_number() == numbers) cells.push_back(html_escaped(clipped(text_of(field.value(tables, row)), most)));
    });
  return cells;
}

class PredictPage {
 public:
  PredictPage(const Predictor& predictor, const PredictReport& report)
      : predictor_(predictor), report_(report), names_(predictor.options().names) {}

  std::string text() {
    const std::string& parameter = names_[report_.which];
    const std::string title = "Memory over " + clipped(parameter, 80);
    body_ = "<h1>" + html_escaped(title) +
            "</h1>\n<p class=quiet>Predicted from recordings, not recorded: " + html_escaped(recordings()) + "</p>\n";
    headlines();
    body_ += growth_chart(make_growth_chart(predictor_, report_.predictions, report_.which, report_.device));
    predictions();
    recorded();
    if (!report_.held.empty()) held();
    return html_page(title + " · memreel", body_);
  }

 private:
  std::string recordings() const {
    std::string text;
    for (const auto& recording : predictor_.recordings())
      text += (text.empty() ? "" : ", ") + clipped(recording->file.filename().string(), 80) + " at " +
              values_text(recording->at, names_);
    return text;
  }

  void headlines() {
    const std::string& parameter = names_[report_.which];
    body_ += "<ul class=headlines>\n";
    if (report_.device.capacity) {
      const bool any = report_.largest_whole && *report_.largest_whole > 0;
      const std::string in = " fits in " + text_of(*report_.device.capacity) + limit_reason();
      body_ += std::string("<li") + (any ? "" : " class=alarm") + ">" +
               html_escaped(any ? "The largest " + parameter + " that" + in + " is " +
                                      memreel::text_of(*report_.largest_whole)
                                : "No " + parameter + in) +
               "</li>\n";
    }
    for (std::size_t i = 0; i < report_.settings.size(); ++i) {
      const PredictSetting& setting = report_.settings[i];
      if (setting.conf.empty()) continue;
      const Prediction& prediction = report_.predictions[i];
      body_ += "<li>" + html_escaped(values_text(prediction.at, names_)) +
               (prediction.first_failure ? " fits with " : " needs less with ") + "<code>" +
               html_escaped(setting.conf) + "</code>: " + text_of(setting.peak_reserved) + " reserved, replayed</li>\n";
    }
    body_ += "<li>" + text_of_share(predictor_.exact_share()) + " of the requested bytes grow by an exact function, " +
             text_of_share(predictor_.aligned_share()) + " have a counterpart in another recording</li>\n<li>" +
             html_escaped(gpu_note(predictor_, report_)) + "</li>\n</ul>\n";
  }

  std::string limit_reason() const {
    const PredictDevice& device = report_.device;
    if (device.others == 0_B) return {};
    return " (" + (device.card.empty() ? text_of(*device.capacity + device.others) : device.card) + " less " +
           text_of(device.others) + (device.assumed ? ", assumed," : "") + " for other things)";
  }

  void predictions() {
    std::vector<HtmlTable::Column> columns = html_columns<PredictionRow>();
    if (!report_.device.capacity) columns.pop_back();  // none fits or does not
    HtmlTable table(columns);
    for (const Prediction& prediction : report_.predictions) {
      std::vector<std::string> row =
          html_cells(Tables{}, PredictionRow{prediction, values_text(prediction.at, names_), report_.device.shared()});
      if (prediction.first_failure) row.back().replace(0, no.size(), "<span class=bad>no</span>");
      row.resize(columns.size());
      table.add_row(row);
    }
    body_ += "<h2>Predicted</h2>\n" + table.text();
  }

  void recorded() {
    HtmlTable table(html_columns<LeftOutRow>());
    for (const LeftOut& left_out : predictor_.left_out())
      table.add_row(html_cells(Tables{}, LeftOutRow{left_out, values_text(left_out.at, names_)}));
    body_ += "<h2>Recorded</h2>\n" + table.text();
  }

  void held() {
    const Prediction& prediction = report_.predictions.back();
    const LiveAtPeak& held = report_.held.back();
    const Recording& base = *predictor_.recordings()[prediction.base];
    const std::string before = html_escaped(values_text(base.at, names_));
    const std::string after = html_escaped(values_text(prediction.at, names_));
    const Titles titles{before, after};
    std::vector<HtmlTable::Column> columns = html_columns<LiveByCategory>(&titles);
    columns.insert(columns.end() - 1, {"per unit", true});
    HtmlTable categories(std::move(columns));
    for (const LiveByCategory& category : held.categories) {
      const std::optional<double> growth = bytes_per_unit(predictor_, prediction, category);
      const Bytes unit{growth && *growth > 0 ? static_cast<std::uint64_t>(*growth) : 0};
      std::vector<std::string> row = html_cells(base.trace.tables, category);
      row.insert(row.end() - 1, growth ? text_of(unit) : "");
      categories.add_row(row);
    }
    body_ += "<h2>Live at the peak</h2>\n" + categories.text();
    HtmlTable sites(html_columns<LiveBySite>(&titles));
    for (std::size_t s = 0; s < std::min(most_growths, held.sites.size()); ++s)
      sites.add_row(html_cells(base.trace.tables, held.sites[s], most_of_a_place));
    body_ += sites.text();
    uncertain();
  }

  void uncertain() {
    const std::vector<UncertainSite>& uncertain = report_.uncertain.back();
    if (uncertain.empty()) return;
    const Prediction& prediction = report_.predictions.back();
    const Tables& tables = predictor_.recordings()[prediction.base]->trace.tables;
    HtmlTable table(html_columns<UncertainSite>());
    for (const UncertainSite& site : listed_sites(uncertain)) table.add_row(html_cells(tables, site, most_of_a_place));
    body_ += "<h2>Uncertain</h2>\n<p class=quiet>" + html_escaped(what_is_uncertain(prediction, names_)) + "</p>\n" +
             table.text();
  }

  const Predictor& predictor_;
  const PredictReport& report_;
  const std::vector<std::string>& names_;
  std::string body_;
};

}  // namespace

void write_predict_html(const Predictor& predictor, const PredictReport& report, std::ostream& out) {
  out << PredictPage(predictor, report).text();
}

}  // namespace memreel::cli
