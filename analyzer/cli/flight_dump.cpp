// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/flight_dump.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "analyzer/analysis/insight/out_of_memory.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/replay/completed_trace.h"
#include "formats/import/import.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

constexpr std::size_t most_holders = 4;

/// "parameter 4.00 GiB, activation 3.20 GiB (most at train.py:41)"
std::string names_of(const Holders& holders) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_holders, holders.parts.size()); ++i) {
    const Holder& holder = holders.parts[i];
    text += (text.empty() ? "" : ", ") + (holder.label.empty() ? "native code" : holder.label) + " " +
            text_of(holder.bytes);
    if (!holder.mostly.empty()) text += " (most at " + holder.mostly + ")";
  }
  return text.empty() ? "nothing that was recorded" : text;
}

Holders holders_at(const Analysis& analysis, const OutOfMemory& oom) {
  const Trace& trace = analysis.trace();
  return holders_at(trace, analysis.lives(), oom.heap, oom.event,
                    category_shares(trace, analysis.lives(), analysis.categories(), oom.heap, oom.event));
}

/// The pool's numbers; at driver level, the device's.
std::string numbers_of(const OutOfMemory& oom) {
  if (oom.level == Level::driver)
    return oom.device_free ? text_of(*oom.device_free) + " free on the device" : "no sample of the device";
  return text_of(oom.live) + " live of " + text_of(oom.reserved) + " reserved, " + text_of(oom.free) +
         " free, largest block " + text_of(oom.largest_in_pool_stream);
}

/// A dump ends in its failure: how the step would have gone on is known from earlier ones, or not at all.
std::string remedy_for(const OutOfMemory& oom, const Remedies& remedies) {
  if (!oom.survivors.empty()) return survivor_text(remedies, oom) + " would have served it";
  if (oom.serve_only.empty()) return "no setting would have served it";
  const OutOfMemory::Served& served = oom.serve_only.front();
  return remedies.tried[served.remedy].text + " would have served it; " + std::string(reservation_of(served.reach));
}

}  // namespace

std::vector<std::string> failure_lines(Trace trace) {
  skip_frames(trace, {});
  complete_trace(trace);
  const Analysis analysis(trace);
  const OutOfMemories& failures = analysis.survivors();
  if (failures.examined.empty()) return {"out of memory: the failed request is not among the events that were kept"};
  const OutOfMemory& oom = failures.examined.back();
  const Heap& heap = trace.tables[oom.heap];
  std::string verdict(name_of(oom.verdict));
  if (oom.verdict == OomVerdict::lack_of_memory) verdict += ", not fragmentation";
  if (oom.own_limit()) verdict += ", at a limit that the program set";
  return {"out of memory on GPU " + std::to_string(heap.device) + ": " + text_of(oom.requested) + " refused, " +
              text_of(oom.live) + " live, held by " + names_of(holders_at(analysis, oom)),
          verdict + " (" + numbers_of(oom) + "); " + remedy_for(oom, analysis.remedies())};
}

void settle_in(int last_file) {
  constexpr unsigned seconds = 60;
  sigset_t none{};
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGALRM, SIGPIPE}) std::signal(signal, SIG_DFL);
  ::setsid();
  ::setpriority(PRIO_PROCESS, 0, 10);
  ::alarm(seconds);
  // In case the kernel could not do it: close what was inherited from the program.
  std::vector<int> others;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", problem)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number > last_file) others.push_back(number);
  }
  for (const int number : others) ::close(number);
}

void say(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "memreel: " + printable(line) + "\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

std::vector<std::string> lines_of_dump(const std::string& dump, const std::string& otherwise) {
  auto trace = open_any(dump);
  std::vector<std::string> lines = trace ? failure_lines(*std::move(trace)) : std::vector{otherwise};
  lines.push_back("dump: " + dump + " (memreel report --oom " + shell_word(dump) + ")");
  return lines;
}

Exit say_failure_lines(std::span<char* const> arguments) {
  if (arguments.size() != 2)
    return fail({.what = "is run by memreel's Python package only", .where = "memreel failure-lines"});
  settle_in(STDERR_FILENO);
  say(lines_of_dump(arguments[0], arguments[1]));
  return Exit::done;
}

namespace {

constexpr int report_file = 4, holders_file = 5;
constexpr const char* recording = "/proc/self/fd/3";

void write_all(int file, std::string_view text) {
  [[maybe_unused]] const ssize_t n = ::write(file, text.data(), text.size());
}

/// What the program's walk over its Python objects found, once that has ended; empty if there is none.
std::string read_holders() {
  constexpr std::size_t most = std::size_t{1} << 20U;
  constexpr int patience_ms = 10'000;  // the program closes its end sooner
  std::string text;
  std::array<char, 4096> bytes{};
  for (pollfd waiting{.fd = holders_file, .events = POLLIN, .revents = 0};
       text.size() < most && ::poll(&waiting, 1, patience_ms) > 0;) {
    const ssize_t size = ::read(holders_file, bytes.data(), bytes.size());
    if (size <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(size));
  }
  text.resize(text.rfind('\n') + 1);  // in case it did not fit
  return text;
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
  writer.set_python_holders(parse_python_holders(read_holders()));
  return writer.finish();
}

}  // namespace

Exit flight_dump(std::span<char* const> arguments) {
  unsigned mode = private_mode;
  const std::string_view mode_text = arguments.size() == 4 ? arguments[1] : "";
  if (std::from_chars(mode_text.data(), mode_text.data() + mode_text.size(), mode).ec != std::errc())
    return fail({.what = "is run by memreel's library only", .where = "memreel flight-dump"});
  settle_in(holders_file);
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
