#include "analyzer/cli/flight_dump.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/cli/helper.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

constexpr int report_file = 4;
constexpr const char* recording = "/proc/self/fd/3";

void write_all(int file, std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(file, text.data(), text.size());
}

/// Makes a complete trace, with its footer, from one that is still being written.
Result<void> write_dump(const std::filesystem::path& dump, unsigned mode) {
  auto file = open_file(recording);
  if (!file) return std::move(file).error();
  auto reader = TraceReader::open(*std::move(file), "the recording");
  if (!reader) return std::move(reader).error();
  auto sink = atomic_file_sink(dump, mode);
  if (!sink) return std::move(sink).error();
  TraceWriter writer(*std::move(sink), reader->header());
  if (!reader->folded().empty()) {
    writer.extend_tables(reader->tables());
    writer.set_folded(reader->folded());
  }
  for (const InitialHeap& initial : reader->initial_heaps()) {
    writer.extend_tables(reader->tables());
    writer.add_initial_heap(initial);
  }
  EventBatch batch;
  for (;;) {
    const auto more = reader->next(batch);
    if (!more) return more.error();
    if (!*more) break;
    writer.extend_tables(reader->tables());
    for (std::size_t i = 0; i < batch.events.count(); ++i) writer.append(batch.events[i]);
  }
  writer.set_losses(reader->losses());
  return writer.finish();
}

}  // namespace

Exit flight_dump(std::span<char* const> arguments) {
  unsigned mode = private_mode;
  const std::string_view mode_text = arguments.size() == 4 ? arguments[1] : "";
  if (std::from_chars(mode_text.data(), mode_text.data() + mode_text.size(), mode).ec != std::errc())
    return fail({.what = "is run by memreel's library only", .where = "memreel flight-dump"});
  settle_in(report_file);
  const std::string dump = arguments[0];
  if (const auto written = write_dump(dump, mode); !written) {
    write_all(report_file, written.error().message());
    return Exit::unusable;
  }
  if (std::string_view(arguments[2]) == "failure")
    say(lines_of_dump(dump, arguments[3]));
  else
    say({"dump: " + dump + " (" + arguments[3] + ")"});
  write_all(report_file, "ok");
  return Exit::done;
}

}  // namespace memreel::cli
