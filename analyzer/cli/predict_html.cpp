#include <algorithm>
#include <ostream>

#include "analyzer/cli/predict_command.h"
#include "analyzer/report/html/growth_chart.h"
#include "analyzer/report/html/page.h"
#include "analyzer/report/html_text.h"
#include "analyzer/report/labels.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

constexpr std::size_t most_growths = 12;

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
    if (device.card.empty()) return {};
    return " (" + device.card + " less " + text_of(device.others) + (device.assumed ? ", assumed," : "") +
           " for other things)";
  }

  void predictions() {
    const bool limited = report_.device.capacity.has_value();
    std::vector<HtmlTable::Column> columns{
        {"peak live", true}, {"peak reserved", true}, {"between", true}, {"and", true}, {"predicted"}};
    if (limited) columns.push_back({"fits"});
    HtmlTable table(columns);
    for (const Prediction& p : report_.predictions) {
      std::vector<std::string> row{text_of(p.peaks.live), text_of(p.peaks.reserved), text_of(p.reserved_low),
                                   text_of(p.reserved_high), html_escaped(values_text(p.at, names_))};
      if (limited)
        row.push_back(p.first_failure ? "<span class=bad>no</span>: " + text_of(p.first_failure->requested) +
                                            " fail at " + text_of(p.first_failure->reserved) + " reserved"
                                      : "yes");
      table.add_row(row);
    }
    body_ += "<h2>Predicted</h2>\n" + table.text();
  }

  void recorded() {
    HtmlTable table({{"peak live", true}, {"peak reserved", true}, {"predicted from the others", true}, {"recorded"}});
    for (const LeftOut& left_out : predictor_.left_out())
      table.add_row({text_of(left_out.recorded.live), text_of(left_out.recorded.reserved),
                     left_out.predicted ? text_of(left_out.predicted->reserved) : "",
                     html_escaped(values_text(left_out.at, names_))});
    body_ += "<h2>Recorded</h2>\n" + table.text();
  }

  void held() {
    const Prediction& prediction = report_.predictions.back();
    const LiveAtPeak& held = report_.held.back();
    const Recording& base = *predictor_.recordings()[prediction.base];
    const std::string before = html_escaped(values_text(base.at, names_));
    const std::string after = html_escaped(values_text(prediction.at, names_));
    HtmlTable categories({{before, true}, {after, true}, {"per unit", true}, {"category"}});
    for (const LiveByCategory& category : held.categories) {
      const std::optional<double> growth = bytes_per_unit(predictor_, prediction, category);
      const Bytes unit{growth && *growth > 0 ? static_cast<std::uint64_t>(*growth) : 0};
      categories.add_row({text_of(category.recorded), text_of(category.predicted), growth ? text_of(unit) : "",
                          std::string(name_of(category.category))});
    }
    body_ += "<h2>Live at the peak</h2>\n" + categories.text();
    HtmlTable sites({{before, true}, {after, true}, {"where"}});
    for (std::size_t s = 0; s < std::min(most_growths, held.sites.size()); ++s)
      sites.add_row({text_of(held.sites[s].recorded), text_of(held.sites[s].predicted),
                     html_escaped(clipped(site_label(base.trace.tables, held.sites[s].stack), 160))});
    body_ += sites.text();
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
