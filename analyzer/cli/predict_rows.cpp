// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/predict_rows.h"

#include "analyzer/report/own_frame.h"

namespace memreel {

namespace {

Cell requests_of(const Tables& /*tables*/, const UncertainSite& site) { return std::uint64_t{site.requests}; }

}  // namespace

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
