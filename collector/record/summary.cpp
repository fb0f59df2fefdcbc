// SPDX-License-Identifier: Apache-2.0
#include "collector/record/summary.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>
#include <tuple>

#include "collector/record/launch.h"
#include "formats/model/live_set.h"
#include "formats/model/lost_frees.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/trace.h"
#include "formats/reader/trace_reader.h"

namespace memreel::record {

using agent::JournalEntry;

RecordedTrace recorded_trace(const std::string& file, std::uint64_t process) {
  RecordedTrace trace{.file = file,
                      .process = process,
                      .facts = facts_of(file),
                      .overhead = {},
                      .stopped = {},
                      .dumps = dumps_of(file)};
  if (trace.facts) trace.lost = trace.facts->lost;
  return trace;
}

RecordedTrace recorded_trace(const JournalEntry& began, const std::vector<JournalEntry>& journal,
                             std::chrono::nanoseconds time) {
  RecordedTrace trace = recorded_trace(began.trace, began.process);
  // The last entry: on a full disk, losses are still being counted.
  const auto ended = std::find_if(journal.rbegin(), journal.rend(), [&](const JournalEntry& other) {
    return other.what == JournalEntry::What::ended && other.trace == began.trace;
  });
  if (ended == journal.rend()) {
    trace.cut = trace.facts && !trace.facts->complete;
    const auto latest = std::find_if(journal.rbegin(), journal.rend(), [&](const JournalEntry& other) {
      return other.what == JournalEntry::What::began && other.process == began.process;
    });
    trace.replaced = trace.cut && latest->trace != began.trace;
    return trace;
  }
  trace.stopped = ended->text;
  if (time.count() > 0) trace.overhead = static_cast<double>(ended->cost_ns) / static_cast<double>(time.count());
  // What is missing from the trace: on a full disk the agent could not write it there.
  if (trace.facts)
    trace.lost = std::max(
        trace.lost, ended->lost + ended->events - std::min(ended->events, trace.facts->events + trace.facts->folded));
  return trace;
}

namespace {

/// Whether a heap's bytes are the device's own: pools' bytes are inside them.
bool is_device_memory(const Heap& heap) {
  return heap.level == Level::driver && heap.device >= 0 && heap.parent == HeapId::none;
}

Bytes held_on(std::int32_t device, const LiveSet& live, const Tables& tables) {
  Bytes held{};
  for (const HeapState& state : live.heaps()) {
    const Heap& heap = tables[state.heap];
    if (is_device_memory(heap) && heap.device == device) held += std::max(state.live, state.reserved);
  }
  return held;
}

}  // namespace

namespace {

/// Adds what the events say. `lacks_frees`: may_lack_frees(), which is known at the end.
Result<TraceReader> read_events(const std::shared_ptr<ByteFile>& file, const std::string& name, bool lacks_frees,
                                TraceFacts& facts) {
  auto reader = TraceReader::open(file, name);
  if (!reader) return reader;

  const Tables& tables = reader->tables();
  LiveSet live(tables);
  LostFrees frees(tables);
  std::vector<Event> behind_frees;
  const auto take = [&](Event event) {
    live.apply(event);
    const Heap& heap = tables[tables[event.origin].heap];
    if (!is_device_memory(heap)) return;
    if (event.kind == EventKind::alloc_failed) ++facts.devices[heap.device].failures;
    if (event.kind == EventKind::alloc || is_segment(event.kind)) {
      Bytes& peak = facts.devices[heap.device].peak;
      peak = std::max(peak, held_on(heap.device, live, tables));
    }
  };
  EventBatch batch;
  while (true) {
    const auto more = reader->next(batch);
    if (!more) return more.error();
    if (!*more) break;
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      if (event.kind == EventKind::alloc) event.allocation = static_cast<AllocationId>(batch.first_allocation++);
      if (!lacks_frees) {
        take(event);
        continue;
      }
      behind_frees.clear();
      frees.follow(event, behind_frees);
      for (const Event& each : behind_frees) take(each);
    }
    facts.events += batch.events.count();
  }
  for (auto& [number, device] : facts.devices) {
    device.end = held_on(number, live, tables);
    device.peak_about = lacks_frees;
  }
  return reader;
}

}  // namespace

Result<TraceFacts> facts_of(const std::filesystem::path& trace) {
  auto file = open_file(trace);
  if (!file) return std::move(file).error();
  TraceFacts facts{.file_size = {(*file)->size()}};
  auto reader = read_events(*file, trace.string(), false, facts);
  if (!reader) return std::move(reader).error();
  if (may_lack_frees(reader->losses(), reader->report())) {
    facts = {.file_size = facts.file_size};
    reader = read_events(*file, trace.string(), true, facts);
    if (!reader) return std::move(reader).error();
  }
  const Tables& tables = reader->tables();
  for (std::size_t i = 0; i < tables.heaps.size(); ++i) {
    const HeapId heap{static_cast<std::uint32_t>(i)};
    if (!is_device_memory(tables[heap])) continue;
    const Bytes older = folded_peak(reader->folded(), heap);
    if (older == 0_B) continue;
    DeviceFacts& device = facts.devices[tables[heap].device];
    device.peak_at_least = older > device.peak;
    device.peak = std::max(device.peak, older);
  }
  const Losses& losses = reader->losses();
  facts.lost = losses.ring_full + losses.hook_refused + reader->report().missing_events;
  facts.folded = losses.folded_events;
  facts.complete = reader->report().has_footer;
  return facts;
}

namespace {

constexpr off_t longest_explanation = 16384;

/// Closes it at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

/// The exit code; -1 if a signal ended it.
int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The text's whole lines.
std::string text_in(int file) {
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(::lseek(file, 0, SEEK_END), 0, longest_explanation)),
                   '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  text.resize(text.rfind('\n') + 1);
  return text;
}

}  // namespace

ErrorLog::ErrorLog() {
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0 || !S_ISREG(about.st_mode)) return;
  const bool appends = (::fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
  begin_ = appends ? about.st_size : ::lseek(STDERR_FILENO, 0, SEEK_CUR);
}

std::string ErrorLog::explanation() const {
  if (begin_ < 0) return {};
  // A descriptor of its own: the position of ours is the program's, too.
  const Descriptor log(::open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC));
  const Descriptor output(::memfd_create("memreel-explain", MFD_CLOEXEC));
  if (log.number() < 0 || output.number() < 0 || ::lseek(log.number(), begin_, SEEK_SET) < 0) return {};
  const Result<pid_t> child = start_companion("memreel", {"memreel", "explain", "--name", "standard error", "-"},
                                              {.input = log.number(), .output = output.number(), .errors = -1});
  constexpr int found = 1;
  return child && wait_for(*child) == found ? text_in(output.number()) : std::string();
}

namespace {

using agent::JournalEntry;

constexpr std::size_t most_shown = 8;  // traces of one run listed individually

std::string nearest_name(const std::string& trace) {
  std::error_code problem;
  const std::filesystem::path nearby =
      std::filesystem::path(trace).lexically_proximate(std::filesystem::current_path(problem));
  return printable(*nearby.begin() == ".." ? trace : nearby.string());
}

/// "GPU 0: peak 3.50 GiB, 12.0 MiB live at exit"
std::string memory_text(const std::map<std::int32_t, DeviceFacts>& devices, std::string_view moment) {
  std::string text;
  for (const auto& [device, facts] : devices) {
    text += (text.empty() ? "" : "; ") + ("GPU " + std::to_string(device)) + ": peak " +
            (facts.peak_at_least ? "at least "
             : facts.peak_about  ? "about "
                                 : "") +
            text_of(facts.peak) + ", " + text_of(facts.end) + " live " + std::string(moment);
    if (facts.failures > 0) text += ", " + counted(facts.failures, "failed allocation");
  }
  return text.empty() ? "no device memory seen" : text;
}

/// "; dumps run-dump-1.reel, run-dump-2.reel"
std::string names_of(const std::vector<std::string>& dumps) {
  std::string text;
  for (const std::string& dump : dumps) text += (text.empty() ? "" : ", ") + nearest_name(dump);
  return text.empty() ? "" : (dumps.size() == 1 ? "; dump " : "; dumps ") + text;
}

std::string text_of_facts(const RecordedTrace& trace, std::string_view moment) {
  const std::string name = nearest_name(trace.file);
  if (!trace.facts) return name + " can't be read: " + printable(trace.facts.error().message());
  return name + " (" + text_of(trace.facts->file_size) + "): " + memory_text(trace.facts->devices, moment) + "; " +
         counted(trace.facts->events, "event") +
         (trace.facts->folded == 0 ? "" : " and sums of " + text_of(trace.facts->folded) + " older ones") + ", " +
         (trace.lost > 0 ? text_of(trace.lost) + " lost"
          : trace.cut    ? std::string("its last 0.1 s may be missing")
                         : "none lost") +
         names_of(trace.dumps);
}

std::string describe(const RecordedTrace& trace) {
  std::string text = text_of_facts(trace, trace.stopped.empty() ? "at exit" : "at the end");
  if (!trace.facts) return text;
  if (trace.overhead) text += "; recording overhead about " + text_of_share(*trace.overhead);
  if (!trace.stopped.empty()) text += "; recording stopped early: " + printable(trace.stopped);
  if (trace.cut)
    text += "; process " + std::to_string(trace.process) +
            (trace.replaced ? " replaced itself (exec)" : " was not seen to end");
  return text;
}

std::string ending_text(const Ending& ending) {
  if (ending.signal != 0) {
    const char* const name = sigabbrev_np(ending.signal);
    return "was killed by " + (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(ending.signal));
  }
  return ending.code == 0 ? "ended" : "ended with exit code " + std::to_string(ending.code);
}

}  // namespace

std::vector<JournalEntry> read_journal(const std::filesystem::path& journal) {
  std::vector<JournalEntry> entries;
  std::ifstream file(journal);
  for (std::string line; std::getline(file, line);)
    if (auto entry = agent::parse_journal_line(line)) entries.push_back(*std::move(entry));
  return entries;
}

std::string summary_of_trace(const RecordedTrace& trace, std::string_view moment) {
  return text_of_facts(trace, moment);
}

std::string summary_of(const std::string& program, const Ending& ending, const std::vector<JournalEntry>& journal,
                       const ErrorLog& errors, bool dormant) {
  std::string text = "memreel: " + printable(program) + " " + ending_text(ending) + " after " +
                     text_of_seconds(std::chrono::duration<double>(ending.time).count());
  std::size_t traces = 0;
  std::string fullest;  // among the traces listed
  std::uint64_t most = 0;
  std::string refusals;
  bool failures = false;  // recorded ones
  for (const JournalEntry& entry : journal) {
    if (entry.what == JournalEntry::What::refused)
      refusals += "\n  process " + std::to_string(entry.process) + " was not recorded: " + printable(entry.text);
    if (entry.what != JournalEntry::What::began) continue;
    if (++traces > most_shown) continue;
    const RecordedTrace trace = recorded_trace(entry, journal, ending.time);
    const std::uint64_t events = trace.facts ? trace.facts->events : 0;
    if (fullest.empty() || events > most) {
      fullest = nearest_name(entry.trace);
      most = events;
    }
    text += "\n  " + describe(trace);
    if (trace.facts)
      for (const auto& [device, facts] : trace.facts->devices) failures = failures || facts.failures > 0;
  }
  if (traces > most_shown) text += "\n  and " + counted(traces - most_shown, "trace") + " more";
  text += refusals;
  if (traces == 0 && refusals.empty())
    text +=
        dormant ? "; memreel attach was never run, so there is no trace" : " without using CUDA; no trace was written";
  std::string explanation;
  if (!failures && (ending.code != 0 || ending.signal != 0)) {
    explanation = errors.explanation();
    if (explanation.empty())
      text += "\n  if it printed an out-of-memory error: memreel explain LOG says what that means";
  }
  if (traces > 0) text += "\n  memreel report " + shell_word(fullest) + " shows what holds the memory";
  return text + "\n" + explanation;
}

Result<std::string> output_pattern(const std::string& given) {
  std::error_code problem;
  const std::filesystem::path named(given), path = std::filesystem::absolute(named, problem);
  if (problem) return Error{.what = problem.message(), .where = given};
  if (std::filesystem::is_directory(path, problem))
    return Error{.what = "is a directory", .where = given, .remedy = "give -o a file name"};
  if (std::filesystem::is_other(path, problem))
    return Error{.what = "is not a regular file, as a trace must be", .where = given, .remedy = "give -o a file name"};
  for (std::size_t at = given.find('%'); at != std::string::npos; at = given.find('%', at + 2))
    if (at + 1 == given.size() || std::string_view("phr%").find(given[at + 1]) == std::string_view::npos)
      return Error{.what = "'" + given.substr(at, 2) + "' stands for nothing",
                   .where = given,
                   .remedy = "%p is the process id, %h the host, %r the rank, %% a percent sign"};
  // Only what the user gave has placeholders, not the folder that it is in.
  std::string pattern;
  if (named.is_relative())
    for (const char c : std::filesystem::current_path(problem).string() + "/") pattern.append(c == '%' ? 2 : 1, c);
  pattern += given;
  if (named.parent_path().string().find('%') != std::string::npos) return pattern;
  const std::filesystem::path directory = path.parent_path();
  std::filesystem::create_directory(directory, problem);  // for -o 'job/%r.reel'; not its parents: they may be misspelt
  if (::access(directory.c_str(), W_OK | X_OK) != 0 || !std::filesystem::is_directory(directory, problem)) {
    const int reason = std::filesystem::exists(directory, problem) && errno == 0 ? ENOTDIR : errno;
    return Error{.what = "can't write a trace here: " + std::generic_category().message(reason),
                 .where = directory.string(),
                 .remedy = "choose another file with -o"};
  }
  return pattern;
}

namespace {

/// 3 for "run-dump-3.reel" next to "run.reel".
std::optional<unsigned> dump_number(const std::filesystem::path& trace, const std::string& name) {
  const std::string before = trace.stem().string() + "-dump-", after = trace.extension().string();
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  const char* const end = name.data() + name.size() - after.size();
  unsigned number = 0;
  const auto [at, problem] = std::from_chars(name.data() + before.size(), end, number);
  return problem == std::errc{} && at == end ? std::optional(number) : std::nullopt;
}

using Recording = std::tuple<std::string, std::uint64_t, Nanoseconds>;

std::optional<Recording> recording_of(const std::filesystem::path& trace) {
  auto file = open_file(trace);
  if (!file) return std::nullopt;
  const auto reader = TraceReader::open(*std::move(file), trace.string());
  if (!reader) return std::nullopt;
  return Recording{reader->header().host, reader->header().process, reader->header().start};
}

}  // namespace

std::vector<std::string> dumps_of(const std::filesystem::path& trace) {
  const auto recording = recording_of(trace);
  if (!recording) return {};
  std::map<unsigned, std::string> dumps;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(trace.parent_path(), problem)) {
    const auto number = dump_number(trace, entry.path().filename().string());
    if (number && entry.is_regular_file(problem) && recording_of(entry.path()) == recording)
      dumps.emplace(*number, entry.path().string());
  }
  std::vector<std::string> paths;
  for (auto& [number, path] : dumps) paths.push_back(std::move(path));
  return paths;
}

Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal) {
  const std::filesystem::path memreel = sibling("memreel");
  for (const agent::JournalEntry& entry : journal) {
    if (entry.what != agent::JournalEntry::What::ended || entry.trace.empty()) continue;
    const auto ending =
        run_command({.program = memreel, .arguments = {"memreel", "symbols", "--quiet", entry.trace}, .variables = {}});
    if (!ending) return ending.error();
  }
  return {};
}

}  // namespace memreel::record
