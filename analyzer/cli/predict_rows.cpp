// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/predict_rows.h"

#include "analyzer/report/own_frame.h"
#include "formats/model/quantity.h"

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
    {"", "category", Unit::text, "What the memory is for", category_of},
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
