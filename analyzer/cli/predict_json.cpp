#include "analyzer/cli/json.h"
#include "analyzer/cli/predict_command.h"

namespace memreel::cli {
namespace {

/// The value of a single parameter, or an object of several.
Json json_of(const Values& at, const std::vector<std::string>& names) {
  if (at.size() == 1) return at.front();
  Json json = Json::object();
  for (std::size_t p = 0; p < names.size(); ++p) json[names[p]] = at[p];
  return json;
}

void add_peaks(Json& json, const Peaks& peaks, const std::string& before) {
  json[before + "peak_live_bytes"] = peaks.live.count;
  json[before + "peak_allocated_bytes"] = peaks.allocated.count;
  json[before + "peak_reserved_bytes"] = peaks.reserved.count;
}

double error_of(Bytes predicted, Bytes recorded) {
  return recorded == 0_B ? 0 : static_cast<double>(predicted.count) / static_cast<double>(recorded.count) - 1;
}

Json json_of(const LeftOut& left_out, const std::vector<std::string>& names) {
  Json json{{"value", json_of(left_out.at, names)}};
  add_peaks(json, left_out.recorded, "recorded_");
  if (!left_out.predicted) {
    for (const char* const key :
         {"peak_live_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "live_error", "reserved_error"})
      json[key] = nullptr;
    return json;
  }
  add_peaks(json, *left_out.predicted, "");
  json["live_error"] = error_of(left_out.predicted->live, left_out.recorded.live);
  json["reserved_error"] = error_of(left_out.predicted->reserved, left_out.recorded.reserved);
  return json;
}

Json json_of_sites(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  constexpr std::size_t most_sites = 10;
  const Tables& tables = predictor.recordings()[prediction.base]->trace.tables;
  Json sites = Json::array();
  for (const LiveBySite& site : held.sites) {
    if (sites.size() == most_sites) break;
    sites.push_back({{"stack", json_of_stack(tables, site.stack)},
                     {"recorded_bytes", site.recorded.count},
                     {"predicted_bytes", site.predicted.count}});
  }
  return sites;
}

Json json_of_categories(const Predictor& predictor, const Prediction& prediction, const LiveAtPeak& held) {
  Json categories = Json::array();
  for (const LiveByCategory& category : held.categories) {
    const std::optional<double> growth = bytes_per_unit(predictor, prediction, category);
    categories.push_back({{"category", name_of(category.category)},
                          {"recorded_bytes", category.recorded.count},
                          {"predicted_bytes", category.predicted.count},
                          {"bytes_per_unit", growth ? Json(*growth) : Json(nullptr)}});
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
    add_peaks(json, predictor.recorded()[r], "");
    json["requests"] = recording.requests.rows.size();
    recordings.push_back(std::move(json));
  }
  Json left_out = Json::array();
  for (const LeftOut& one : predictor.left_out()) left_out.push_back(json_of(one, names));
  Json predictions = Json::array();
  for (std::size_t i = 0; i < report.predictions.size(); ++i) {
    const Prediction& prediction = report.predictions[i];
    Json json{{"value", json_of(prediction.at, names)}};
    add_peaks(json, prediction.peaks, "");
    json["peak_reserved_low_bytes"] = prediction.reserved_low.count;
    json["peak_reserved_high_bytes"] = prediction.reserved_high.count;
    json["fits"] = report.device.capacity ? Json(!prediction.first_failure) : Json(nullptr);
    json["first_failure"] = cli::json_of_failure(prediction.first_failure);
    json["growth"] = json_of_sites(predictor, prediction, report.held[i]);
    json["categories"] = json_of_categories(predictor, prediction, report.held[i]);
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
              {"recordings", recordings},
              {"aligned_share", predictor.aligned_share()},
              {"exact_share", predictor.exact_share()},
              {"leave_one_out", left_out},
              {"doubts", predictor.doubts()},
              {"capacity_bytes", device.capacity ? Json(device.capacity->count) : Json(nullptr)},
              {"card", device.card.empty() ? Json(nullptr) : Json(device.card)},
              {"other_bytes", device.card.empty() ? Json(nullptr) : Json(device.others.count)},
              {"other_bytes_assumed", device.card.empty() ? Json(nullptr) : Json(device.assumed)},
              {"gpu",
               {{"multiprocessors", predictor.gpu().multiprocessors},
                {"threads_per_multiprocessor", predictor.gpu().threads},
                {"compute_capability", predictor.gpu().compute_capability},
                {"assumed", !device.gpu && !predictor.gpu_seen()}}},
              {"predictions", predictions},
              {"largest_that_fits", or_null(report.largest ? report.largest : report.largest_whole)},
              {"largest_whole_number_that_fits", or_null(report.largest_whole)},
              {"policy", policy.name},
              {"params", policy.parameters}});
}

}  // namespace memreel::cli
