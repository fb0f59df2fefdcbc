// SPDX-License-Identifier: Apache-2.0
// JSON documents of the command line: keys in insertion order, one document to standard output.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/replay/replay.h"
#include "analyzer/report/fields.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel::cli {

using Json = nlohmann::ordered_json;

/// Writes the document to standard output. Replaces invalid UTF-8 instead of failing.
void print_json(const Json& document);
void print_json(const Json& document, std::ostream& out);

/// A part of a document on one line, for separate output; also replaces invalid UTF-8.
std::string one_line(const Json& part);

/// [{"function":..,"file":..,"line":..}], innermost first.
Json json_of_stack(const Tables& tables, StackId stack);

/// {"ring_full":0,...}: every counter of Losses and of what the reader skipped.
Json json_of_losses(const Header& header, const Losses& losses, const ReadReport& read);
Json json_of_losses(const Trace& trace);

/// The value of `first_failure`; null for none.
Json json_of_failure(const ReplayFailure* failure);
inline Json json_of_failure(const std::optional<ReplayFailure>& failure) {
  return json_of_failure(failure ? &*failure : nullptr);
}

/// A cell's value; null for none.
Json json_of(const Cell& cell);

/// The object of a row: its fields that have a key.
template <class Row>
Json json_of_fields(const Tables& tables, const Row& row) {
  Json json = Json::object();
  for (const ResultField<Row>& field : FieldsOf<Row>::all)
    if (!field.key.empty()) json[std::string(field.key)] = json_of(field.value(tables, row));
  return json;
}

/// What was live before the events that a flight recorder keeps, at least; null: it keeps all.
Json json_of_folded_peak(const Trace& trace, HeapId heap);

/// The value of `driver_calls`.
Json json_of_calls(const DriverCalls& calls);

}  // namespace memreel::cli
