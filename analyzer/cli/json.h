// JSON documents of the command line: keys in the order they are added, one document to standard output.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/replay/replay.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel::cli {

using Json = nlohmann::ordered_json;

/// Writes the document, to standard output when nothing else is said. Text that is not UTF-8 is replaced, never an
/// error.
void print_json(const Json& document);
void print_json(const Json& document, std::ostream& out);

/// A part of a document, to be written on its own: on one line, and likewise with text that is not UTF-8.
std::string one_line(const Json& part);

/// [{"function":..,"file":..,"line":..}], innermost first.
Json json_of_stack(const Tables& tables, StackId stack);

/// {"ring_full":0,...}: every counter of Losses and what the reader had to skip.
Json json_of_losses(const Header& header, const Losses& losses, const ReadReport& read);
Json json_of_losses(const Trace& trace);

/// The value of `first_failure`; null for none.
Json json_of_failure(const ReplayFailure* failure);
inline Json json_of_failure(const std::optional<ReplayFailure>& failure) {
  return json_of_failure(failure ? &*failure : nullptr);
}

/// The value of `driver_calls`.
Json json_of_calls(const DriverCalls& calls);

}  // namespace memreel::cli
