// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/session.h"

#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include "collector/attach/injector.h"
#include "collector/attach/process.h"
#include "collector/record/collector_command.h"
#include "collector/record/launch.h"
#include "formats/model/files.h"
#include "formats/model/live_set.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "memreel/version.h"

namespace memreel::attach {
namespace {

std::optional<Listener> listener_of(std::string_view name) {
  // An abstract name begins with a zero byte, which is shown as @.
  const std::string prefix = "@" + std::string(control_socket_prefix) + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  Listener listener;
  const char* const end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + prefix.size(), end, listener.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return std::nullopt;
  const auto start = std::from_chars(number.ptr + 1, end, listener.start);
  if (start.ec != std::errc() || start.ptr != end) return std::nullopt;
  return listener;
}

bool is(pid_t process, const Listener& listener) {
  return start_time(process) == listener.start && number_in_own_namespace(process) == listener.number;
}

}  // namespace

std::vector<Listener> listeners_in(std::string_view sockets) {
  std::vector<Listener> found;
  while (!sockets.empty()) {
    const std::string_view line = sockets.substr(0, sockets.find('\n'));
    sockets.remove_prefix(std::min(sockets.size(), line.size() + 1));
    if (const auto listener = listener_of(line.substr(line.rfind(' ') + 1))) found.push_back(*listener);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<pid_t> listening_processes() {
  const Result<std::string> sockets = read_whole_file("/proc/net/unix");
  if (!sockets) return {};
  std::vector<pid_t> processes;
  std::vector<Listener> elsewhere;  // in containers
  for (const Listener& listener : listeners_in(*sockets)) {
    const auto number = static_cast<pid_t>(listener.number);
    if (is(number, listener))
      processes.push_back(number);
    else
      elsewhere.push_back(listener);
  }
  if (!elsewhere.empty())
    for (const pid_t process : all_processes())
      if (std::ranges::any_of(elsewhere, [&](const Listener& listener) { return is(process, listener); }))
        processes.push_back(process);
  std::ranges::sort(processes);
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t largest_document = 64ULL << 20U;
constexpr rlim_t most_memory = 6ULL << 30U;  // address space of a report's process
constexpr int nine_times = 9;

std::uint64_t size_of(const std::string& file) {
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(file, problem);
  return problem ? 0 : size;
}

template <class Value>
Value value_of(const Json& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<Value, std::string>)
    return found->is_string() ? printable(found->template get<std::string>()) : otherwise;
  else
    return found->is_number() ? found->template get<Value>() : otherwise;
}

/// The elements of an array, or none.
const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

/// The innermost frame in the program's own language: one with a line.
std::string place_of(const Json& stack) {
  const auto has_line = [](const Json& frame) { return frame.is_object() && value_of(frame, "line", 0) > 0; };
  const auto frame = std::ranges::find_if(stack, has_line);
  if (frame == stack.end()) return {};
  const std::string file = value_of<std::string>(*frame, "file", "");
  return value_of<std::string>(*frame, "function", "") + " (" + std::string(base_name(file)) + ":" +
         std::to_string(value_of(*frame, "line", 0)) + ")";
}

/// A program may have several heaps with the same name.
void add(std::vector<CategoryUse>& uses, CategoryUse use) {
  const auto same = std::ranges::find_if(uses, [&](const CategoryUse& known) {
    return known.device == use.device && known.heap == use.heap && known.category == use.category;
  });
  if (same == uses.end())
    uses.push_back(std::move(use));
  else
    same->bytes += use.bytes;
}

std::string read_all(int file) {
  std::string text(
      std::min(static_cast<std::uint64_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)), largest_document), '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

}  // namespace

std::optional<Findings> findings_of(std::string_view document) {
  const Json report = Json::parse(document, nullptr, false);
  if (!report.is_object() || value_of<std::string>(report, "schema", "") != "memreel.report/1") return std::nullopt;
  Findings findings;
  for (const Json& heap : list_of(report, "live_at_end"))
    for (const Json& share : list_of(heap, "categories")) {
      CategoryUse use{.device = value_of(heap, "device", 0),
                      .heap = value_of<std::string>(heap, "heap", ""),
                      .category = value_of<std::string>(share, "category", ""),
                      .bytes = {value_of<std::uint64_t>(share, "bytes", 0)}};
      if (use.bytes.count > 0) add(findings.categories, std::move(use));
    }
  for (const Json& leak : list_of(report, "leaks")) {
    LeakSoFar found{.verdict = value_of<std::string>(leak, "verdict", ""),
                    .bytes = {value_of<std::uint64_t>(leak, "bytes", 0)},
                    .count = value_of<std::uint64_t>(leak, "count", 0),
                    .growth_per_step = value_of(leak, "growth_bytes_per_step", 0.0),
                    .place = place_of(list_of(leak, "stack"))};
    if (found.verdict == "leak" || found.verdict == "suspected") findings.leaks.push_back(std::move(found));
  }
  std::ranges::stable_sort(findings.leaks, std::ranges::greater{}, &LeakSoFar::bytes);
  return findings;
}

Analysis::~Analysis() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    turn_->taken = false;
  }
  if (output_ >= 0) ::close(output_);
}

void Analysis::advance(Clock::time_point now) {
  int status = 0;
  if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) end(status, now);
  if (!turn_->taken && now >= turn_->due) begin(now);
}

void Analysis::begin(Clock::time_point now) {
  const std::uint64_t size = size_of(trace_);
  if (size == size_) return;
  if (size > largest_trace.count) {
    problem_ = "the trace is now too large to analyse while recording; use memreel report";
    return;
  }
  output_ = ::memfd_create("memreel-report", MFD_CLOEXEC);
  const auto child = record::start_companion(
      "memreel", {"memreel", "report", trace_, "--live", "--leaks", "--by", "category", "--json"},
      {.input = -1, .output = output_, .errors = -1});
  size_ = size;
  begun_ = now;
  if (!child) {
    problem_ = child.error().message();
    ::close(std::exchange(output_, -1));
    return;
  }
  child_ = *child;
  turn_->taken = true;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child_), PRIO_MAX - 1);
  const rlimit memory{.rlim_cur = most_memory, .rlim_max = most_memory};
  const rlimit document{.rlim_cur = largest_document, .rlim_max = largest_document};
  ::prlimit(child_, RLIMIT_AS, &memory, nullptr);
  ::prlimit(child_, RLIMIT_FSIZE, &document, nullptr);
}

void Analysis::end(int status, Clock::time_point now) {
  child_ = 0;
  *turn_ = {.taken = false, .due = now + nine_times * (now - begun_)};
  const std::string document = read_all(output_);
  ::close(std::exchange(output_, -1));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    problem_ = "memreel report can't read the trace yet";
    return;
  }
  if (auto found = findings_of(document)) {
    findings_ = *std::move(found);
    problem_.clear();
  }
}

namespace {

constexpr int done = 0;
constexpr std::string_view rank_prefix = "rank:";

struct Request {
  std::vector<std::string> targets;
  double time_limit = 60;  // seconds
  bool quiet = false;
  bool json = false;
};

struct Target {
  pid_t process = 0;
  std::string rank;
};

/// Listening processes on this machine whose rank matches `pattern`.
std::vector<Target> ranks_like(const std::string& pattern) {
  std::vector<Target> found;
  for (const pid_t process : listening_processes()) {
    const Reply reply = ask(process, {.word = "status", .fields = {}}, std::chrono::seconds(2));
    if (!reply.reached || !reply.answer || (*reply.answer)["recording"] != "1") continue;
    const std::string rank((*reply.answer)["rank"]);
    if (::fnmatch(pattern.c_str(), rank.c_str(), 0) == 0) found.push_back({process, rank});
  }
  return found;
}

Result<std::vector<Target>> targets_of(const Request& request) {
  std::vector<Target> targets;
  for (const std::string& text : request.targets) {
    pid_t process = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), process);
    if (problem == std::errc() && end == text.data() + text.size() && process > 0) {
      targets.push_back({process, {}});
      continue;
    }
    if (!text.starts_with(rank_prefix))
      return Error{.what = "'" + text + "' is neither a process id nor a rank",
                   .where = "TARGET",
                   .remedy = "use memreel dump 4711 or memreel dump 'rank:*'"};
    const std::vector<Target> ranks = ranks_like(text.substr(rank_prefix.size()));
    if (ranks.empty())
      return Error{
          .what = "no process recorded on this machine has a matching rank",
          .where = text,
          .remedy = "start the job with memreel record --flight 256MiB, and run memreel dump on the same machine"};
    targets.insert(targets.end(), ranks.begin(), ranks.end());
  }
  return targets;
}

/// Returns the dump's file.
Result<std::string> dump(const Target& target, std::chrono::milliseconds limit) {
  const std::string name = "process " + std::to_string(target.process);
  if (!start_time(target.process)) return Error{.what = "no such process", .where = name, .remedy = {}};
  const Reply reply = ask(target.process, {.word = "dump", .fields = {}}, limit);
  if (!reply.reached)
    return Error{.what = "is not being recorded with --flight",
                 .where = name,
                 .remedy = "start it with memreel record --flight 256MiB -- PROGRAM"};
  if (reply.answer) return std::string((*reply.answer)["trace"]);
  Error error = reply.answer.error();
  if (error.where.empty()) error.where = name;
  return error;
}

void describe(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("TARGET", request.targets, "Process ids, or rank:PATTERN for ranks on this machine (rank:0, 'rank:*')")
      ->required();
  add_number(app, "--time-limit", request.time_limit, record::waits, "Seconds to wait for each dump [60]");
  app.add_flag("-q,--quiet", request.quiet, "Print nothing but errors");
  app.add_flag("--json", request.json, "Print one JSON document (memreel.dump/1)");
  app.footer(
      "Makes each program that runs under memreel record --flight write its flight recording to a file next to its "
      "trace. The program keeps running.\n\n"
      "Examples:\n"
      "  memreel dump 4711\n"
      "  memreel dump 'rank:*'\n\n"
      "Exit code: 0 done; 2 if a process is not recorded with --flight, or a dump could not be written.");
}

}  // namespace

int run_dump(int argc, char** argv) {
  Request request;
  CLI::App app("Dump flight recordings to files: memreel dump TARGET...", "memreel dump");
  describe(app, request);
  if (const auto code = record::parse(app, "dump", argc, argv)) return *code;
  const auto targets = targets_of(request);
  if (!targets) return record::fail(targets.error());
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(request.time_limit * 1000));
  int code = done;
  record::Json dumps = record::Json::array();
  for (const Target& target : *targets) {
    const auto file = dump(target, limit);
    if (!file) {
      code = record::fail(file.error());
      continue;
    }
    dumps.push_back({{"process", target.process}, {"rank", target.rank}, {"dump", *file}});
    if (!request.json && !request.quiet) std::printf("%s\n", printable(*file).c_str());
  }
  if (request.json)
    std::fputs(record::document_text({{"schema", "memreel.dump/1"}, {"dumps", std::move(dumps)}}).c_str(), stdout);
  return std::fflush(stdout) == 0 ? code : exit_unusable;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{15};  // ending a recording may take 10

std::chrono::milliseconds left_until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

/// Another process's error, as an error of ours.
Error told_by(pid_t process, Error error) {
  error.what.insert(0, error.where.empty() ? "" : error.where + " ");
  error.where = process_name(process);
  return error;
}

Result<Message> told(pid_t process, const Message& question, std::chrono::milliseconds limit = patience) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  Reply reply = ask(process, question, limit);
  if (!reply.reached)
    return Error{.what = "is not being recorded",
                 .where = process_name(process),
                 .remedy = "memreel attach " + std::to_string(process) + " starts a recording"};
  if (!reply.answer) return told_by(process, std::move(reply.answer).error());
  return std::move(reply.answer);
}

/// What the recording of `process` knows to be live and allocated at `site`, as hexadecimal numbers; empty: nothing.
std::string allocated_in_recording(pid_t process, const std::string& site) {
  constexpr std::size_t most = 4096;  // of 13 characters each, in a message of at most 64 KiB
  const auto status = status_of(process);
  if (!status || (*status)["recording"] != "1") return {};
  const std::string trace((*status)["trace"]);
  auto file = open_file(trace);
  auto reader = file ? TraceReader::open(*file, trace) : Result<TraceReader>(file.error());
  const auto addresses =
      reader ? allocated_at(*reader, site, most) : Result<std::vector<Address>>(std::move(reader).error());
  std::string text;
  if (addresses)
    for (const Address address : *addresses) text += hexadecimal(address.value).substr(2) + ' ';
  return text;
}

}  // namespace

/// Tries the attach methods in order of how much they need the program's cooperation.
Result<Joined> enter(pid_t process, std::chrono::milliseconds limit) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  const Clock::time_point deadline = Clock::now() + limit;
  Joined joined;
  Reply there = ask(process, {.word = "status", .fields = {}}, limit);
  if (there.reached && !there.answer) return told_by(process, std::move(there.answer).error());
  if (there.reached) return joined;
  // The checks for entering from outside also apply to Python's way, except for those on system calls. They come first:
  // for such a program, waiting until it uses the GPU would not help.
  if (auto enterable = check_enterable(process); !enterable) return enterable.error();
  if (const auto maps = read_proc(process, "maps");
      maps && !maps->empty() && maps->find("libcuda.so") == std::string::npos)
    return Error{.what = "has not loaded CUDA's driver, libcuda.so.1",
                 .where = process_name(process),
                 .remedy = "attach once it uses the GPU, or start it with memreel record"};
  auto library = record::find_agent();
  if (!library) return library.error();
  if (enter_through_python(process, *library, left_until(deadline) / 4)) {
    joined.door = Joined::Door::python;
    return joined;
  }
  const auto injected = inject(process, *library, left_until(deadline));
  if (!injected) return injected.error();
  joined.door = Joined::Door::entered;
  joined.pause = injected->pause;
  return joined;
}

Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  auto joined = enter(process, limit);
  if (!joined) return joined;
  Reply begun = ask(process, {.word = "start", .fields = agent::to_environment(options)}, left_until(deadline));
  if (begun.answer) {
    joined->status = *std::move(begun.answer);
    return joined;
  }
  if (!begun.reached) return Error{.what = "has ended, or closed its control socket", .where = process_name(process)};
  return told_by(process, std::move(begun.answer).error());
}

Result<Message> leave(pid_t process) { return told(process, {.word = "stop", .fields = {}}); }

Result<Message> holders_of(pid_t process, const std::string& site, std::chrono::milliseconds limit) {
  Message question{.word = "holders", .fields = {}};
  if (!site.empty()) question.fields = {{"site", site}, {"allocated", allocated_in_recording(process, site)}};
  return told(process, question, limit);
}

Result<Message> status_of(pid_t process) { return told(process, {.word = "status", .fields = {}}); }

namespace {

std::string_view name_of(std::string_view path) { return path.substr(path.find_last_of("/\\") + 1); }

/// As memreel.holders(site=...) writes frames (memreel/holding.py, sites_of()).
bool is_at(const FrameText& frame, std::string_view site) {
  if (frame.file.empty()) return false;
  const std::string text =
      std::string(name_of(frame.file)) + ':' + std::to_string(frame.line) + ' ' + std::string(frame.function);
  return text.find(site) != std::string::npos;
}

/// Answers for each stack once.
class Sites {
 public:
  Sites(const Tables& tables, std::string_view site) : tables_(&tables), site_(site) {}

  bool contains(StackId stack) {
    if (stack == StackId::none) return false;
    const auto [known, is_new] = known_.try_emplace(index(stack), false);
    if (is_new)
      known->second = std::ranges::any_of(frames_of(*tables_, stack),
                                          [this](const FrameText& frame) { return is_at(frame, site_); });
    return known->second;
  }

 private:
  const Tables* tables_;
  std::string_view site_;
  std::unordered_map<std::uint64_t, bool> known_;
};

}  // namespace

Result<std::vector<Address>> allocated_at(TraceReader& trace, const std::string& site, std::size_t most) {
  LiveSet live(trace.tables());
  EventBatch batch;
  while (true) {
    const auto more = trace.next(batch);
    if (!more) return more.error();
    if (!*more) break;
    std::uint64_t allocation = batch.first_allocation;
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      if (event.kind == EventKind::alloc) event.allocation = AllocationId{static_cast<std::uint32_t>(allocation++)};
      live.apply(event);
    }
  }
  std::vector<LiveAllocation> found = live.snapshot().allocations;
  Sites sites(trace.tables(), site);
  std::erase_if(found, [&](const LiveAllocation& one) { return !sites.contains(one.stack); });
  std::ranges::stable_sort(found, std::ranges::greater{}, &LiveAllocation::size);
  std::vector<Address> addresses;
  std::unordered_set<std::uint64_t> seen;
  for (const LiveAllocation& one : found)
    if (addresses.size() < most && seen.insert(one.address.value).second) addresses.push_back(one.address);
  return addresses;
}

}  // namespace memreel::attach
