// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/flight_dumps.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "formats/model/quantity.h"

namespace memreel::agent {
namespace {

// All that a handler can access.
constinit std::atomic<std::uint64_t> arrivals = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
constinit std::atomic<pid_t> recorded = 0;          // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void arrived(int signal) {
  const int error = errno;
  if (::getpid() == recorded.load(std::memory_order_relaxed)) {
    arrivals.fetch_add(1, std::memory_order_relaxed);
  } else {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = error;
}

}  // namespace

DumpSignal::DumpSignal(int signal) : signal_(signal) {
  if (signal_ == 0) return;
  struct sigaction before {};
  if (::sigaction(signal_, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 ||
      (before.sa_handler != SIG_DFL && before.sa_handler != arrived))  // in a forked child, our parent's
    return;
  recorded = ::getpid();
  struct sigaction ours {};
  ours.sa_handler = arrived;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  installed_ = ::sigaction(signal_, &ours, nullptr) == 0;
}

DumpSignal::~DumpSignal() {
  if (!installed_ || !is_ours()) return;
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal_, &usual, nullptr);
}

bool DumpSignal::is_ours() const {
  struct sigaction now {};
  return ::sigaction(signal_, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == arrived;
}

std::uint64_t DumpSignal::count() const { return arrivals.load(std::memory_order_relaxed); }

std::string DumpSignal::conflict() {
  if (signal_ == 0 || told_ || (installed_ && is_ours())) return {};
  told_ = true;
  return "the program handles signal " + text_of_signal(signal_) + " itself; use memreel dump " +
         std::to_string(::getpid()) + ", or choose another --dump-signal";
}

void DumpTriggers::see(const Event& event, const Tables& tables) {
  switch (event.kind) {
    case EventKind::alloc_failed:
      return refused(event, tables);
    case EventKind::memory_info:
      return sampled(event, tables);
    case EventKind::alloc: {
      if (refusals_.empty()) return;
      const auto refusal = refusals_.find(index(tables[event.origin].thread));
      if (refusal != refusals_.end() && event.size.count >= refusal->second.size.count / 2) refusals_.erase(refusal);
      return;
    }
    default:
      return;
  }
}

void DumpTriggers::refused(const Event& event, const Tables& tables) {
  const Origin& origin = tables[event.origin];
  const Heap& heap = tables[origin.heap];
  if (heap.device < 0) return;
  const std::uint32_t thread = index(origin.thread);
  if (heap.level == Level::driver) {
    const auto [refusal, is_first] =
        refusals_.try_emplace(thread, Refusal{.time = event.time, .size = event.size, .device = heap.device});
    if (is_first) return;
    ++refusal->second.count;
    // It now requests much less, so the earlier request had failed for good.
    if (event.size.count < refusal->second.size.count / 2) {
      fail(refusal->second.size, refusal->second.device, refusal->second.count - 1);
      refusal->second = {.time = event.time, .size = event.size, .device = heap.device};
    }
    return;
  }
  refusals_.erase(thread);
  fail(event.size, heap.device);
}

void DumpTriggers::fail(Bytes size, std::int32_t device, std::uint64_t count) {
  failures_ += count;
  if (failure_) return;
  failure_ = {.reason = DumpReason::out_of_memory,
              .text = "out of memory on GPU " + std::to_string(device) + ": " + memreel::text_of(size) + " refused"};
}

void DumpTriggers::sampled(const Event& event, const Tables& tables) {
  const Origin& origin = tables[event.origin];
  if (!samples_device(tables, origin)) return;
  const std::int32_t number = tables[origin.heap].device;
  Device& device = devices_[number];
  const Bytes used = event.size, total = used + Bytes{event.value};
  if (options_.used_percent) {
    const double limit = *options_.used_percent / 100;
    constexpr double hysteresis = 0.02;
    const double share = share_of(used, total);
    if (share >= limit && !device.over) {
      device.over = true;
      limit_ = {.reason = DumpReason::used,
                .text = text_of_share(share) + " of GPU " + std::to_string(number) + "'s memory is used"};
    } else if (share < limit - hysteresis) {
      device.over = false;
    }
  }
  if (!options_.growth) return;
  auto& lows = device.lows;
  while (!lows.empty() && event.time - lows.front().first > options_.growth->time) lows.pop_front();
  while (!lows.empty() && lows.back().second >= used) lows.pop_back();
  lows.emplace_back(event.time, used);
  const Bytes grown = used - lows.front().second;
  if (grown >= options_.growth->bytes && !device.grows) {
    device.grows = true;
    limit_ = {.reason = DumpReason::growth,
              .text = "GPU " + std::to_string(number) + "'s memory use grew by " + memreel::text_of(grown) + " in " +
                      text_of_seconds(std::chrono::duration<double>(event.time - lows.front().first).count())};
  } else if (grown < options_.growth->bytes) {
    device.grows = false;
  }
}

std::optional<DumpCause> DumpTriggers::due(Nanoseconds now) {
  for (auto refusal = refusals_.begin(); refusal != refusals_.end();) {
    if (now - refusal->second.time < patience) {
      ++refusal;
      continue;
    }
    fail(refusal->second.size, refusal->second.device, refusal->second.count);
    refusal = refusals_.erase(refusal);
  }
  std::optional<DumpCause>& cause = failure_ ? failure_ : limit_;
  return std::exchange(cause, std::nullopt);
}

namespace {

Nanoseconds now() { return std::chrono::system_clock::now().time_since_epoch(); }

/// Copies an open file, whatever its access mode.
Result<void> copy(int file, const std::string& to, unsigned mode) {
  const int source = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return Error{.what = "can't read the recording", .where = to, .remedy = {}};
  auto sink = live_file_sink(to, mode);
  Result<void> result;
  if (!sink) result = sink.error();
  std::array<std::byte, std::size_t{64} << 10U> buffer{};
  while (result) {
    const ssize_t size = ::read(source, buffer.data(), buffer.size());
    if (size <= 0) break;
    result = (*sink)->write(std::span(buffer).first(static_cast<std::size_t>(size)));
  }
  ::close(source);
  if (result) result = (*sink)->close();
  return result;
}

}  // namespace

std::string helper_of(const std::string& library) {
  std::error_code problem;
  const std::filesystem::path here = std::filesystem::path(library).parent_path();
  for (const char* place : {"../bin/memreel", "../../bin/memreel", "memreel"}) {
    const std::filesystem::path candidate = (here / place).lexically_normal();
    if (std::filesystem::is_regular_file(candidate, problem) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate.string();
  }
  return {};
}

std::string dump_name(const std::string& trace, unsigned number) {
  std::filesystem::path path = trace;
  const std::string extension = path.extension().string();
  path.replace_extension();
  return path.string() + "-dump-" + std::to_string(number) + extension;
}

FlightDumps::FlightDumps(const Options& options, std::string trace, std::string helper,
                         std::function<void(std::string)> say, std::function<AskedHolders()> ask_holders)
    : options_(options.dumps),
      mode_(options.mode),
      trace_(std::move(trace)),
      helper_(std::move(helper)),
      say_(std::move(say)),
      triggers_(options.dumps),
      signal_(options.dumps.signal),
      ask_holders_(std::move(ask_holders)),
      signals_seen_(signal_.count()) {}

std::uint64_t FlightDumps::ask() {
  const std::lock_guard lock(mutex_);
  return ++asked_;
}

std::optional<Result<std::string>> FlightDumps::answer(std::uint64_t question) {
  const std::lock_guard lock(mutex_);
  if (answered_ < question) return std::nullopt;
  return answer_;
}

/// What has triggered since the last call. A failure soon after a dumped one does not get another dump.
std::optional<DumpCause> FlightDumps::cause(Nanoseconds now) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_ > taken_) {
      taken_ = asked_;
      return DumpCause{.reason = DumpReason::asked, .text = "memreel dump"};
    }
  }
  if (const std::uint64_t count = signal_.count(); count != signals_seen_) {
    signals_seen_ = count;
    return DumpCause{.reason = DumpReason::signal, .text = "signal"};
  }
  auto cause = triggers_.due(now);
  const bool is_storm = cause && cause->reason == DumpReason::out_of_memory && last_failure_ &&
                        Clock::now() - *last_failure_ < quiet_time;
  return is_storm ? std::nullopt : cause;
}

void FlightDumps::step(FlightWriter& writer) { step(writer, now()); }

void FlightDumps::step(FlightWriter& writer, Nanoseconds now) {
  if (std::string conflict = signal_.conflict(); !conflict.empty()) say_(std::move(conflict));
  if (last_failure_ && Clock::now() - *last_failure_ >= quiet_time) tell_of_others();
  if (!writing_.empty()) {
    pass_holders(true);
    std::string reported;
    if (!process_.has_ended(0, reported)) return;
    helper_ended(writer, reported);
  }
  if (const auto found = cause(now)) begin(writer, *found);
}

void FlightDumps::begin(FlightWriter& writer, const DumpCause& cause) {
  std::error_code ignored;
  do writing_ = dump_name(trace_, ++number_);
  while (std::filesystem::exists(std::filesystem::symlink_status(writing_, ignored)));
  cause_ = cause.text;
  if (cause.reason == DumpReason::out_of_memory) {
    ++failures_told_;
    last_failure_ = Clock::now();
    last_failure_dump_ = writing_;
  }
  for (; written_.size() >= options_.kept; written_.pop_front()) std::filesystem::remove(written_.front(), ignored);
  if (start_helper(writer, cause)) {
    holders_ = ask_holders_ ? ask_holders_() : AskedHolders();
    holders_asked_ = Clock::now();
    // After a failure, who reads the lines waits for them, and the failing thread has asked already.
    holders_patience_ =
        cause.reason == DumpReason::out_of_memory ? std::chrono::milliseconds(500) : std::chrono::seconds(2);
    return pass_holders(true);
  }
  copy_recording(writer);
}

/// `reported`: "ok", what went wrong, or nothing.
void FlightDumps::helper_ended(FlightWriter& writer, const std::string& reported) {
  if (reported == "ok") return ended({});
  if (!reported.empty()) return ended(Error{.what = reported, .where = writing_, .remedy = {}});
  copy_recording(writer);
}

/// Unless the dump is there: the helper may have ended between writing it and saying so.
void FlightDumps::copy_recording(FlightWriter& writer) {
  std::error_code ignored;
  Result<void> written;
  if (!std::filesystem::exists(writing_, ignored)) {
    const auto file = writer.file().descriptor();
    written = file ? copy(*file, writing_, mode_) : Result<void>(file.error());
  }
  if (written) say_(cause_ + "; dump: " + writing_);
  ended(written);
}

Result<void> FlightDumps::start_helper(FlightWriter& writer, const DumpCause& cause) {
  if (helper_.empty()) return Error{.what = "memreel's program is missing", .where = trace_, .remedy = {}};
  const auto file = writer.file().descriptor();
  if (!file) return file.error();
  const bool failed = cause.reason == DumpReason::out_of_memory;
  return process_.start(
      {helper_, "flight-dump", writing_, std::to_string(mode_), failed ? "failure" : "other", cause.text}, *file);
}

/// Gives the helper what keeps the memory, or tells it that this is not known: the program's main thread is in C code.
/// `wait`: unless it takes too long, it may still come.
void FlightDumps::pass_holders(bool wait) {
  constexpr std::chrono::milliseconds patience_once_begun{6000};
  bool begun = false;
  const auto text = holders_ ? holders_(begun) : std::string();
  if (!text && wait && Clock::now() - holders_asked_ < (begun ? patience_once_begun : holders_patience_)) return;
  process_.finish_input(text.value_or("note Python's main thread did not come to a safe point in time\n"));
  holders_ = nullptr;
}

void FlightDumps::ended(Result<void> result) {
  if (result)
    written_.push_back(writing_);
  else
    say_("no dump: " + result.error().message());
  const std::lock_guard lock(mutex_);
  if (answered_ < taken_) {
    answered_ = taken_;
    answer_ = result ? Result<std::string>(writing_) : Result<std::string>(result.error());
  }
  writing_.clear();
}

/// Reports how many failures one dump represents.
void FlightDumps::tell_of_others() {
  last_failure_.reset();
  const std::uint64_t others = triggers_.failures() - failures_told_;
  failures_told_ = triggers_.failures();
  if (others == 0 || last_failure_dump_.empty()) return;
  say_(memreel::counted(others, "more request") + " failed after " + last_failure_dump_ +
       " was written; no further dump");
}

void FlightDumps::finish(FlightWriter& writer) {
  constexpr int patience = 5000;
  step(writer, now() + DumpTriggers::patience);  // no refusal can be made good any more
  if (writing_.empty()) return tell_of_others();
  pass_holders(false);
  std::string reported;
  if (process_.has_ended(patience, reported)) helper_ended(writer, reported);
  tell_of_others();
}

namespace {

Error refused(const std::string& what, int reason) {
  return {.what = what + ": " + std::generic_category().message(reason), .where = {}, .remedy = {}};
}

/// Two small stacks, for the processes between the program and the helper, which share the program's memory until they
/// exit.
class Stacks {
 public:
  Stacks() : memory_(::mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, 2 * size);
  }
  explicit operator bool() const { return memory_ != MAP_FAILED; }
  void* top(std::size_t number) const { return static_cast<std::byte*>(memory_) + (number + 1) * size; }

 private:
  static constexpr std::size_t size = std::size_t{64} << 10U;
  void* memory_;
};

struct Start {
  const char* program;
  char* const* arguments;
  int null, file, report, more;
  void* stack;
  int problem = 0;
};

/// In the helper, until exec. Only system calls: the memory is the program's. Signals stay blocked, so that none of the
/// program's handlers runs here; the helper unblocks them.
int become_helper(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  char* no_environment = nullptr;
  const bool placed = ::dup2(start.null, STDIN_FILENO) >= 0 && ::dup2(start.null, STDOUT_FILENO) >= 0 &&
                      ::dup2(start.file, HelperProcess::input) >= 0 &&
                      ::dup2(start.report, HelperProcess::report) >= 0 &&
                      ::dup2(start.more, HelperProcess::more_input) >= 0;
  if (placed) {
#if defined(SYS_close_range)
    ::syscall(SYS_close_range, HelperProcess::more_input + 1, ~0U, 0);  // else the helper closes them
#endif
    ::execve(start.program, start.arguments, &no_environment);
  }
  start.problem = errno;
  ::_exit(127);
}

/// The intermediate process: when it exits, the helper becomes an orphan.
int start_helper(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  if (::clone(become_helper, start.stack, CLONE_VM | CLONE_VFORK | SIGCHLD, argument) < 0) start.problem = errno;
  ::_exit(0);
}

constexpr int wait_for_unsignalled = static_cast<int>(__WCLONE);

bool is_given_orphans() {
  int subreaper = 0;
  return ::getpid() == 1 || (::prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper != 0);
}

}  // namespace

Result<void> HelperProcess::start(const std::vector<std::string>& arguments, int file) {
  forget();
  if (is_given_orphans()) return Error{.what = "this process adopts orphaned processes", .where = {}, .remedy = {}};
  const Stacks stacks;
  std::array<int, 2> pipe_ends{};
  if (!stacks || ::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return refused("can't start a process", errno);
  std::array<int, 2> more_ends{-1, -1};
  if (::pipe2(more_ends.data(), O_CLOEXEC) != 0) {
    const int reason = errno;
    for (const int end : pipe_ends) ::close(end);
    return refused("can't start a process", reason);
  }
  constexpr int room = 1 << 19;
  ::fcntl(more_ends[1], F_SETPIPE_SZ, room);
  ::fcntl(more_ends[1], F_SETFL, O_NONBLOCK);
  // Above the descriptors that the helper gets.
  for (int& end : pipe_ends) end = move_up(end);
  for (int& end : more_ends) end = move_up(end);
  const int null = move_up(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  words.push_back(nullptr);
  Start start{.program = words.front(),
              .arguments = words.data(),
              .null = null,
              .file = file,
              .report = pipe_ends[1],
              .more = more_ends[0],
              .stack = stacks.top(1)};
  // As no signal is sent when it exits, only a wait() that requests such children sees it.
  const pid_t between = ::clone(start_helper, stacks.top(0), CLONE_VM | CLONE_VFORK, &start);
  if (between < 0) start.problem = errno;
  while (between > 0 && ::waitpid(between, nullptr, wait_for_unsignalled) < 0 && errno == EINTR) {
  }
  ::close(null);
  ::close(pipe_ends[1]);
  ::close(more_ends[0]);
  if (start.problem != 0) {
    ::close(pipe_ends[0]);
    ::close(more_ends[1]);
    return refused("can't run " + arguments.front(), start.problem);
  }
  alive_ = pipe_ends[0];
  identity_ = identity_of(alive_);
  more_ = more_ends[1];
  more_identity_ = identity_of(more_);
  reported_.clear();
  return {};
}

void HelperProcess::finish_input(std::string_view text) {
  if (more_ < 0 || identity_of(more_) != more_identity_) return;
  while (!text.empty()) {
    const ssize_t size = ::write(more_, text.data(), text.size());
    if (size <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  ::close(more_);
  more_ = -1;
}

bool HelperProcess::has_ended(int milliseconds, std::string& reported) {
  if (alive_ < 0) return true;
  pollfd waiting{.fd = alive_, .events = POLLIN, .revents = 0};
  while (identity_of(alive_) != identity_ || ::poll(&waiting, 1, milliseconds) > 0) {
    std::array<char, 512> bytes{};
    const bool is_ours = identity_of(alive_) == identity_;
    const ssize_t size = is_ours ? ::read(alive_, bytes.data(), bytes.size()) : 0;
    if (size > 0) {
      reported_.append(bytes.data(), static_cast<std::size_t>(size));
      continue;
    }
    reported = std::exchange(reported_, {});
    forget();
    return true;
  }
  return false;
}

void HelperProcess::forget() {
  finish_input({});
  if (alive_ >= 0 && identity_of(alive_) == identity_) ::close(alive_);
  alive_ = -1;
}

}  // namespace memreel::agent
