// SPDX-License-Identifier: Apache-2.0
#include "collector/agent/agent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>

#include "collector/annotate/annotations.h"
#include "collector/attach/control_socket.h"
#include "collector/cuda/cupti_backend.h"
#include "collector/cuda/interposer.h"
#include "collector/cuda/watch.h"
#include "collector/options/journal.h"
#include "collector/python/own_code.h"
#include "collector/recorder/own_thread.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/nap.h"
#include "collector/torch/allocator_trace.h"

namespace memreel::agent {

HarmlessWrites::HarmlessWrites() {
  sigset_t pending{};
  ::sigpending(&pending);
  ::sigemptyset(&made_);
  for (const int signal : {SIGPIPE, SIGXFSZ})
    if (::sigismember(&pending, signal) == 0) ::sigaddset(&made_, signal);
  ::pthread_sigmask(SIG_BLOCK, &made_, &before_);
}

HarmlessWrites::~HarmlessWrites() {
  const timespec at_once{};
  while (::sigtimedwait(&made_, nullptr, &at_once) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void say(const std::string& text) {
  const std::string line = "memreel: " + text + "\n";
  const HarmlessWrites harmless;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

namespace {

Recorder* recorder_of_call();
Recorder* early_recorder();

/// The agent's state in a process. Created at the first start and never destroyed: threads may be inside at any time,
/// even while the program exits.
struct Agent {
  Gate gate;  // protects the members below, except atomics
  Options options;
  bool configured = false, given_up = false;
  bool is_early = false;  // the recorder waits for a recording, with the program's annotations ...
  std::chrono::steady_clock::time_point early_from;  // ... since then
  cuda::Watch watch{recorder_of_call};
  cuda::CuptiBackend cupti{watch};
  bool subscribed = false;
  std::string source;
  bool began_late = false;
  bool joins = false;            // a recording of a running program is about to begin
  Recorder* recorder = nullptr;  // made for the first recording, reused as long as possible; never destroyed
  std::unique_ptr<Recording> recording;
  std::atomic<pid_t> process = 0;   // that is being recorded
  std::atomic<bool> child = false;  // forked from a recorded process, without a recording of its own
};

std::atomic<Agent*> agent = nullptr;  // NOLINT

Agent& instance() {
  Agent* there = agent.load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  static Agent* const made = new Agent;  // NOLINT: leaked on purpose
  agent.store(made, std::memory_order_release);
  return *made;
}

/// For starting a recording, and for ending it at program exit or on request. Ending takes longest: until the writing
/// thread has finished or is abandoned.
constexpr std::chrono::seconds patience_to_begin{1}, patience_to_end{12}, patience_at_once{5};

/// Blocks thread cancellation, which the program does not expect in a driver call.
class NotCancelled {
 public:
  NotCancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;
  ~NotCancelled() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// The state that one of the program's threads needs while inside the agent.
class Entry {
 public:
  Entry(Agent& self, std::chrono::seconds patience) : lock_(self.gate, patience) {}
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  NotCancelled not_cancelled_;
  std::unique_lock<Gate> lock_;
};

void note(const Agent& self, JournalEntry entry) {
  entry.process = static_cast<std::uint64_t>(::getpid());
  const HarmlessWrites harmless;
  // There is nobody to report a failing journal to.
  [[maybe_unused]] const Result<void> result = append_to_journal(self.options.journal, entry);
}

void forget_early_recorder(Agent& self) {
  set_maker_of_recorders(nullptr);
  set_early_recorder(nullptr);
  self.is_early = false;
}

/// Disables recording in this process from now on.
void give_up(Agent& self, const Error& error) {
  self.given_up = true;
  forget_early_recorder(self);
  say(error.message() + "; not recording this process");
  note(self, {.what = JournalEntry::What::refused, .text = error.message()});
}

void say_failure(const Recording::Outcome& outcome) {
  say(outcome.result.error().message() + "; recording stopped after " + std::to_string(outcome.events) +
      " events; later events are lost");
}

void note_end(const Agent& self, const Recording::Outcome& outcome, std::string_view why) {
  note(self, {.what = JournalEntry::What::ended,
              .trace = outcome.trace,
              .events = outcome.events,
              .lost = outcome.lost,
              .cost_ns = outcome.cost_ns,
              .own_ns = outcome.own_ns,
              .text = outcome.result ? std::string(why) : outcome.result.error().message()});
}

/// The agent's own module.
stacks::LoadedModule own_module() {
  stacks::ModuleTable modules;
  modules.refresh();
  const auto own = modules.find(reinterpret_cast<std::uintptr_t>(&own_module));
  return own != stacks::ModuleTable::none ? modules[own] : stacks::LoadedModule{};
}

/// A recorder that is no longer usable is left as it is: threads may still be in it.
Recorder* ready_recorder(Agent& self) {
  if (self.is_early) return self.recorder;
  if (self.recorder == nullptr || !self.recorder->reopen(self.options))
    self.recorder = new Recorder(self.options);  // NOLINT: leaked on purpose, see Agent
  return self.recorder;
}

Result<void> begin_recording(Agent& self) {
  const bool recorder_is_new = self.is_early;
  Recorder* const recorder = ready_recorder(self);
  const auto failed = [&self](const Recording::Outcome& outcome) {
    say_failure(outcome);
    note_end(self, outcome, "");
  };
  const auto look_around = [&self, recorder] {
    const stacks::LoaderUse use;
    if (const std::string told = look_for_frameworks(self.options, *recorder); !told.empty()) say(told);
  };
  look_around();
  const stacks::LoadedModule own = own_module();
  auto recording =
      Recording::begin(self.options, *recorder,
                       {.source = self.source,
                        .began_late = self.began_late,
                        .asks_torch = std::exchange(self.joins, false) && self.options.torch,
                        .recorder_is_new = recorder_is_new,
                        .own_code = own.range,
                        .look_around = look_around,
                        .library = own.path,
                        .ask_holders = asker_of_holders(self.options, own.path),
                        .say = [](const std::string& text) { say(text); },
                        .ended = [&self](const Recording::Outcome& outcome) { note_end(self, outcome, ""); }},
                       failed);
  if (!recording) return recording.error();
  self.recording = *std::move(recording);
  self.process = ::getpid();
  set_recorder(recorder);
  forget_early_recorder(self);
  self.watch.sampler().begin(self.options.sample_period);
  note(self, {.what = JournalEntry::What::began, .trace = self.recording->trace(), .text = self.source});
  return {};
}

/// Uses CUPTI if available, else the interposed symbols if the agent was preloaded; or as the options say.
Result<void> subscribe(Agent& self) {
  if (self.options.backend != BackendChoice::interpose) {
    auto begun = self.cupti.begin(self.options.libcupti);
    if (begun) {
      self.source = "cupti";
      self.subscribed = true;
      if (self.cupti.is_shared() && !self.cupti.sharer().empty()) say("CUPTI is shared with " + self.cupti.sharer());
      return {};
    }
    if (self.options.backend == BackendChoice::cupti || !cuda::interposer::preloaded()) return begun.error();
    say("CUPTI " + begun.error().what + "; intercepting driver calls instead");
  }
  if (!cuda::interposer::preloaded())
    return Error{.what = "needs the preloaded library",
                 .where = "--backend interpose",
                 .remedy = "start the program with memreel record"};
  cuda::interposer::begin(self.watch);
  self.source = "interpose";
  self.subscribed = true;
  return {};
}

void unsubscribe(Agent& self) {
  if (!self.subscribed) return;
  if (self.source == "cupti")
    self.cupti.end();
  else
    cuda::interposer::end();
  self.subscribed = false;
}

/// Requires the gate, like all functions below.
Result<void> begin(Agent& self) {
  const stacks::LoaderUse use;
  if (!self.subscribed) {
    if (auto subscribed = subscribe(self); !subscribed) return subscribed;
  }
  auto begun = begin_recording(self);
  if (!begun) unsubscribe(self);
  return begun;
}

bool start_locked(Agent& self) {
  if (self.recording != nullptr) return true;
  if (self.given_up) return false;
  const auto begun = begin(self);
  if (!begun) give_up(self, begun.error());
  return static_cast<bool>(begun);
}

std::optional<Recording::Outcome> end(Agent& self, std::string_view why) {
  self.child = false;
  if (self.recording == nullptr) return std::nullopt;
  set_recorder(nullptr);
  self.watch.sampler().end();
  std::optional<Recording::Outcome> outcome = self.recording->end();
  // After its thread, which looks for frameworks.
  left_frameworks();
  // A late failure has not been reported yet, and the journal may be on the same full disk as the trace.
  if (outcome && !outcome->result && !self.recording->has_failed()) say_failure(*outcome);
  if (outcome) note_end(self, *outcome, why);
  if (outcome) {
    self.recording.reset();
    self.recorder->rest();
  } else {
    [[maybe_unused]] Recording* const still_in_use = self.recording.release();
    self.recorder = nullptr;
  }
  if (!why.empty()) unsubscribe(self);
  return outcome;
}

/// A forked child records into its own file, from its first event on: many children never have one.
Recorder* recorder_or_childs() {
  if (Recorder* const there = recorder()) return there;
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr || !self->child.load(std::memory_order_relaxed)) return nullptr;
  const Entry entry(*self, std::chrono::seconds(0));
  if (!entry || !self->child.exchange(false)) return nullptr;
  if (const auto begun = begin_recording(*self); !begun) give_up(*self, begun.error());
  control::listen();  // a request to end the parent's recording does not reach this process
  return recorder();
}

/// A driver call may be the first sign of PyTorch's allocator at work.
Recorder* recorder_of_call() {
  Recorder* const found = recorder_or_childs();
  if (found != nullptr) torch::follow_from_driver_call(*found);
  return found;
}

/// Before a fork: a lock held by one of our threads now would never be released in the child.
void forking() {
  if (Agent* const self = agent.load(std::memory_order_acquire)) self->watch.sampler().suspend();
  stacks::hold_loader_uses();
}

void forked_in_parent() {
  stacks::release_loader_uses();
  if (Agent* const self = agent.load(std::memory_order_acquire)) self->watch.sampler().resume();
}

/// In a forked child: the parent's threads do not exist, and the parent's file must not be used.
void forked() {
  stacks::forget_loader_uses();
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return;
  self->gate.reset();
  self->watch.sampler().forget();
  self->recorder = nullptr;
  const bool spoke_early = self->is_early;
  forget_early_recorder(*self);
  if (spoke_early || self->recording != nullptr) set_maker_of_recorders(early_recorder);
  if (self->recording == nullptr) return;
  set_recorder(nullptr);
  [[maybe_unused]] Recording* const parents = self->recording.release();
  self->child = true;
}

void program_ends() {
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return;
  self->watch.program_ends();
  if (const Entry entry(*self, patience_to_end); entry) self->watch.sampler().end();
}

/// Runs after the destructors of the program's own objects, which may still free memory.
[[gnu::destructor]] void library_ends() { stop(""); }

/// For exits without destructors. They may be called in a signal handler, which may have interrupted anything; and in a
/// child that shares its memory with its recorded parent (vfork).
void program_leaves() {
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr || is_confined() || self->process.load(std::memory_order_relaxed) != ::getpid()) return;
  const Entry entry(*self, patience_to_begin);
  if (!entry || self->recording == nullptr) return;
  set_recorder(nullptr);
  self->recording->end_at_once(patience_at_once);
  [[maybe_unused]] Recording* const still_in_use = self->recording.release();
}

/// The function that the program would call without us: the C library's, or another tool's.
std::atomic<void (*)(int)> next_exit = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Where the program's address space is limited (ulimit -v), what a recording reserves of it is missing to the program:
/// about 640 MiB, most of it never touched (tables; 64 MiB for the allocations of each of our threads). Of a limited
/// stack (ulimit -s), our part of a driver call takes up to 20 KiB.
Result<void> leaves_room() {
  constexpr std::uint64_t least = std::uint64_t{2} << 30U, least_stack = std::uint64_t{64} << 10U;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < least_stack)
    return Error{.what = "has a stack of less than 64 KiB, of which a recording would take part",
                 .remedy = "raise the limit (ulimit -s)"};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  std::uint64_t pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%" SCNu64, &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (limit.rlim_cur >= least + used) return {};
  return Error{.what = "has less than 2 GiB of address space left, which a recording would take from the program",
               .remedy = "raise the limit (ulimit -v)"};
}

/// Reads the options and registers the handlers for forks and program exit; once.
bool configure(Agent& self) {
  if (self.configured) return !self.given_up;
  self.configured = true;
  if (attach::has_raised_privileges()) {  // the environment is its user's, who lacks the process's rights
    self.given_up = true;
    return false;
  }
  auto options = options_from_environment();
  if (!options) {
    self.options.journal = journal_from_environment();
    give_up(self, options.error());
    return false;
  }
  self.options = *std::move(options);
  if (const auto room = leaves_room(); !room) {
    give_up(self, room.error());
    return false;
  }
  ::pthread_atfork(forking, forked_in_parent, forked);
  std::atexit(program_ends);
  std::at_quick_exit(program_leaves);
  return true;
}

/// The program annotates before its first driver call. Its threads store that in a recorder, which the recording will
/// use when it begins.
Recorder* early_recorder() {
  Agent& self = instance();
  const Entry entry(self, patience_to_begin);
  if (!entry) return nullptr;
  if (self.recording != nullptr) return recorder();
  if (self.is_early) return self.recorder;
  if (!cuda::interposer::preloaded() || !configure(self) || self.options.dormant) {
    set_maker_of_recorders(nullptr);
    return nullptr;
  }
  self.recorder = new Recorder(self.options);  // NOLINT: leaked on purpose, see Agent
  self.recorder->wait_for_attention();
  self.is_early = true;
  self.early_from = std::chrono::steady_clock::now();
  const stacks::LoaderUse use;
  if (const std::string told = look_for_frameworks(self.options, *self.recorder); !told.empty()) say(told);
  set_early_recorder(self.recorder);
  return self.recorder;
}

[[gnu::constructor]] void library_begins() {
  next_exit = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_NEXT, "_exit"));
  set_maker_of_recorders(early_recorder);
}

[[noreturn]] void leave_process(int status) {
  program_leaves();
  if (void (*const next)(int) = next_exit.load(std::memory_order_acquire)) next(status);
  while (true) ::syscall(SYS_exit_group, status);
}

}  // namespace

bool start() {
  Agent& self = instance();
  const Entry entry(self, patience_to_begin);
  if (!entry || !configure(self)) return false;
  const bool waits = self.options.dormant && self.recording == nullptr;
  const bool begun = !waits && start_locked(self);
  if (waits || begun) control::listen();
  return begun;
}

bool restart() {
  Agent& self = instance();
  const Entry entry(self, patience_to_begin);
  if (!entry || !configure(self)) return false;
  self.given_up = false;
  self.began_late = true;
  return start_locked(self);
}

Result<Status> join(const Options& options) {
  Agent& self = instance();
  auto began = std::chrono::steady_clock::now();
  {
    const Entry entry(self, patience_to_end);
    if (!entry) return Error{.what = "is busy starting or stopping a recording", .remedy = "try again"};
    if (self.recording != nullptr && self.recording->has_failed()) end(self, "writing failed");
    if (self.recording != nullptr)
      return Error{.what = "is already being recorded to " + self.recording->trace(),
                   .remedy = "memreel detach stops a recording that memreel attach started"};
    const stacks::LoaderUse use;
    if (::dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY) == nullptr)
      return Error{.what = "has not loaded CUDA's driver, libcuda.so.1",
                   .remedy = "attach once it uses the GPU, or start it with memreel record"};
    if (attach::has_raised_privileges()) return Error{.what = "runs with raised privileges"};
    if (!options.libcupti.empty())
      return Error{.what = "does not let memreel attach choose libcupti",
                   .remedy = "set MEMREEL_LIBCUPTI when you start the program"};
    configure(self);
    // The library to load and the journal's path are up to whoever started the program.
    const std::string journal = self.options.journal, libcupti = self.options.libcupti;
    self.options = options;
    self.options.journal = journal;
    self.options.libcupti = libcupti;
    self.given_up = false;
    self.began_late = true;
    self.watch.look_around();
    if (self.is_early) began = self.early_from;
    self.joins = true;
    hook_frameworks(self.options);
    if (auto begun = begin(self); !begun) {
      left_frameworks();
      return begun.error();
    }
    joined_frameworks(self.options);
  }
  annotate::ask_for_state(began);
  return status();
}

void cupti_wanted(bool shares) {
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return;
  const Entry entry(*self, patience_to_begin);
  if (!entry || !self->subscribed || self->source != "cupti") return;
  if (shares && self->cupti.is_shared()) return say("CUPTI is shared with another part of the program");
  if (self->options.backend == BackendChoice::cupti) return;
  self->cupti.end();
  cuda::interposer::begin(self->watch);
  self->source = "interpose";
  self->watch.sampler().forget_calls();
  say("handing CUPTI over to another part of the program; intercepting driver calls instead");
}

Status status() {
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return {};
  const Entry entry(*self, patience_to_end);
  if (!entry || self->recording == nullptr || self->recording->has_failed()) return {};
  return {.recording = true,
          .trace = self->recording->trace(),
          .source = self->source,
          .rank = self->recording->rank(),
          .progress = self->recording->progress(),
          .memory = recorder()->ask_usage(Usage::Peaks::keep)};
}

Result<std::string> dump(std::chrono::milliseconds limit) {
  const Error none{.what = "is not being recorded with --flight",
                   .remedy = "start it with memreel record --flight 256MiB -- PROGRAM"};
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return none;
  std::optional<std::uint64_t> question;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < until) {
    {
      // No longer: the program may exit meanwhile.
      const Entry entry(*self, patience_to_begin);
      if (!entry) continue;
      if (self->recording == nullptr) return none;
      if (!question) question = self->recording->ask_for_dump();
      if (!question) return none;
      if (auto answer = self->recording->dump_of(*question)) return *std::move(answer);
    }
    stacks::nap(std::chrono::milliseconds(10));
  }
  return Error{.what = "did not write a dump in time", .remedy = "try again, or copy its trace"};
}

Result<std::string> holders(const std::string& site, const std::string& allocated) {
  constexpr std::chrono::seconds patience{5}, patience_once_begun{20};
  const std::string package = python::package_of(own_module().path);
  if (package.empty())
    return Error{.what = "can't tell: memreel's Python package is not installed next to its library",
                 .remedy = "pip install memreel"};
  const std::string call = site.empty()
                               ? "table(with_blocks=False)"
                               : "table_of_site(" + python::literal(site) + ", " + python::literal(allocated) + ")";
  const auto walk = python::ObjectWalk::ask(package, call);
  if (walk == nullptr)
    return Error{.what = "runs no Python that could tell, or has not come to an earlier request yet",
                 .remedy = "try again; other programs have no holders"};
  hurry_walk();
  const auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - began < (walk->has_begun() ? patience_once_begun : patience)) {
    if (auto told = walk->answer()) return *std::move(told);
    stacks::nap(std::chrono::milliseconds(2));
  }
  return Error{.what = "did not come to a safe point in its main thread, which is in C code or waits",
               .remedy = "try again"};
}

std::optional<Recording::Outcome> leave(std::string_view why) {
  Agent* const self = agent.load(std::memory_order_acquire);
  if (self == nullptr) return std::nullopt;
  const Entry entry(*self, patience_to_end);
  return entry ? end(*self, why) : std::nullopt;
}

void stop(std::string_view why) { leave(why); }

void retire(std::string_view why) {
  stop(why);
  control::hang_up();
  retire_own_threads();
}

}  // namespace memreel::agent

// Forked children of Python's multiprocessing end with _exit(). The C library's own exit() and quick_exit() don't call
// these.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names
extern "C" {
[[gnu::visibility("default"), noreturn]] void _exit(int status) { memreel::agent::leave_process(status); }
[[gnu::visibility("default"), noreturn]] void _Exit(int status) noexcept { memreel::agent::leave_process(status); }
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
