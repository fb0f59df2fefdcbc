// The JSON documents of `memreel record`, `attach` and `detach` (docs/schema).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collector/options/journal.h"
#include "collector/record/child.h"
#include "collector/record/recorded_trace.h"

namespace memreel::record {

using Json = nlohmann::ordered_json;

/// The document as written to a file: indented, with a trailing newline. Replaces invalid UTF-8.
std::string document_text(const Json& document);

/// `recorded_trace` of docs/schema/common.json.
Json json_of(const RecordedTrace& trace);

/// memreel.record/1. `program` is its name as the user typed it. Reads every trace.
Json record_document(const std::string& program, const Ending& ending, const std::vector<agent::JournalEntry>& journal);

}  // namespace memreel::record
