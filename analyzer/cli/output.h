// SPDX-License-Identifier: Apache-2.0
// Where the output of commands goes: one JSON document to standard output, files, and all else to standard error.
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

#include "analyzer/describe/fields.h"
#include "analyzer/replay/replay.h"
#include "formats/command_line/output_files.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel::cli {

// On standard error: progress, colour, errors.

/// Exit codes of every command; scripts rely on them.
enum class Exit : int {
  done = 0,
  negative = 1,  // the answer is no: not exact, budget exceeded, regression
  unusable = 2,  // bad usage, or input that can't be read
};

/// Prints "memreel: error: ..." in one line.
Exit fail(const Error& error);

/// Prints "memreel: note: ..." in one line.
void note(std::string_view text);

/// A progress line on standard error for slow operations: the description, with a bar once update() has been called,
/// else with the elapsed seconds. Prints nothing if standard error is not a terminal or the operation is short.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// Thread-safe and cheap: a separate thread draws the line.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  void draw_until(const std::stop_token& stop);
  void draw(std::chrono::steady_clock::duration elapsed) const;

  std::string label_;
  std::atomic<double> share_ = -1;  // negative: unknown
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread drawing_;  // last: uses all members above
};

/// Wraps text in bold or dim if `fd` is a terminal and NO_COLOR is not set; otherwise returns it unchanged.
std::string bold(std::string_view text, int fd = 1);
std::string red(std::string_view text, int fd = 1);

// Output files of commands.

/// Calls `write` with the file, or with standard output if `file` is empty. A regular file is created or replaced
/// atomically once everything is written, and keeps its mode. Symbolic links are followed; devices, pipes and sockets
/// are written to directly. Fails if not everything could be written, including to standard output.
Result<void> write_output(const std::filesystem::path& file, const std::function<Result<void>(std::ostream&)>& write);

/// Whether `output` means standard output: it is empty, or names the same file.
bool is_standard_output(const std::filesystem::path& output);

/// "run.html (12.00 KiB)": what a command has written. Nothing if that is no file, or standard output.
std::string written_text(const std::filesystem::path& file);

/// Whether one of `outputs`, of which some may be empty, names the file that is standard output. Text would be written
/// over it, or follow it, so it goes elsewhere or nowhere.
bool take_standard_output(std::span<const std::filesystem::path> outputs);

/// Fails if `output` is standard output, which --json uses for its document.
Result<void> leaves_room_for_json(const std::filesystem::path& output);
/// Fails if one of `outputs`, of which some may be empty, names it.
Result<void> leave_room_for_json(std::span<const std::filesystem::path> outputs);

/// Flushes standard output. Fails if not everything could be written.
Result<void> flush_output();

// JSON documents of the command line: keys in insertion order, one document to standard output.

using Json = nlohmann::ordered_json;

/// Writes the document to standard output. Replaces invalid UTF-8 instead of failing.
void print_json(const Json& document);
void print_json(const Json& document, std::ostream& out);

/// A part of a document on one line, for separate output; also replaces invalid UTF-8.
std::string one_line(const Json& part);

/// [{"function":..,"file":..,"line":..}], innermost first.
Json json_of_stack(const Tables& tables, StackId stack);

/// Makes room for as many members before large ones are added: an object that grows copies all that it holds.
inline void reserve(Json& object, std::size_t members) { object.get_ref<Json::object_t&>().reserve(members); }

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
