#include "analyzer/cli/flight_dump.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "analyzer/cli/failure_lines.h"
#include "formats/model/printable.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

constexpr int report_file = 4;
constexpr const char* recording = "/proc/self/fd/3";

void write_all(int file, std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(file, text.data(), text.size());
}

/// From the surroundings of the program into those of a helper: no signal of its is blocked here, none that is meant
/// for its group ends it, and it yields to the program.
void settle_in() {
  constexpr unsigned seconds = 60;
  sigset_t none{};
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGALRM, SIGPIPE}) std::signal(signal, SIG_DFL);
  ::setsid();
  ::setpriority(PRIO_PROCESS, 0, 10);
  ::alarm(seconds);
  // Where the kernel could not do it: what the program has open is not kept open by us.
  std::vector<int> others;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", problem)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number > report_file) others.push_back(number);
  }
  for (const int number : others) ::close(number);
}

/// A plain trace with its footer, of one that is still being written.
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

void tell(const std::string& dump, bool failed, const std::string& text) {
  std::string lines;
  const auto add = [&](const std::string& line) { lines += "memreel: " + printable(line) + "\n"; };
  if (failed) {
    if (auto trace = load(dump)) {
      for (const std::string& line : failure_lines(*std::move(trace))) add(line);
    } else {
      add(text);
    }
    add("dump: " + dump + " (memreel report --oom " + dump + ")");
  } else {
    add("dump: " + dump + " (" + text + ")");
  }
  write_all(STDERR_FILENO, lines);
}

}  // namespace

Exit flight_dump(std::span<char* const> arguments) {
  unsigned mode = private_mode;
  const std::string_view mode_text = arguments.size() == 4 ? arguments[1] : "";
  if (std::from_chars(mode_text.data(), mode_text.data() + mode_text.size(), mode).ec != std::errc())
    return fail({.what = "is run by memreel's library only", .where = "memreel flight-dump"});
  settle_in();
  const std::string dump = arguments[0];
  if (const auto written = write_dump(dump, mode); !written) {
    write_all(report_file, written.error().message());
    return Exit::unusable;
  }
  tell(dump, std::string_view(arguments[2]) == "failure", arguments[3]);
  write_all(report_file, "ok");
  return Exit::done;
}

}  // namespace memreel::cli
