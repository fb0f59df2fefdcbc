// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/own_thread.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string_view>

#include "collector/stacks/unwind.h"

namespace memreel::agent {

namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a process has one number of threads
constinit std::atomic<pid_t> process = 0;
constinit std::atomic<unsigned> running = 0;
constinit std::atomic<bool> retired = false;
constinit std::array<std::atomic<pid_t>, 16> own_threads{};  // negative: its work is done, and it is about to end
[[gnu::tls_model("initial-exec")]] constinit thread_local bool confined = false;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

[[gnu::constructor]] void learn_process() {
  process = ::getpid();
  ::pthread_atfork(nullptr, nullptr, [] {  // a child has none of the threads
    process = ::getpid();
    running = 0;
    for (std::atomic<pid_t>& place : own_threads) place = 0;
  });
}

/// The calling thread's place in `own_threads`; null if there are too many.
std::atomic<pid_t>* place_of_thread() {
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  for (std::atomic<pid_t>& place : own_threads)
    if (pid_t other = place; other <= 0 && place.compare_exchange_strong(other, self)) return &place;
  return nullptr;
}

}  // namespace

bool Gate::try_lock_for(std::chrono::milliseconds limit) {
  if (is_confined()) return false;
  constexpr std::chrono::microseconds pause{200};
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  std::chrono::microseconds waited{0};
  while (true) {
    pid_t holder = 0;
    if (holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return true;
    if (holder == self || waited >= limit) return false;
    stacks::nap(pause);
    waited += pause;
  }
}

namespace {

struct Body {
  void* (*run)(void*);
  void* argument;
};

/// What a thread of ours can't do without memory is lost; it never ends the program.
void* run_guarded(void* given) {
  const Body body = *static_cast<Body*>(given);
  std::free(given);  // NOLINT(cppcoreguidelines-no-malloc): operator new throws
  std::atomic<pid_t>* const place = place_of_thread();
  try {
    body.run(body.argument);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
  if (place != nullptr) *place = -*place;
  --running;
  return nullptr;
}

}  // namespace

bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument) {
  if (retired) return false;
  auto* const guarded = static_cast<Body*>(std::malloc(sizeof(Body)));  // NOLINT(cppcoreguidelines-no-malloc): as above
  if (guarded == nullptr) return false;
  *guarded = {body, argument};
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // Our threads need more than programs with little stack space per thread give them.
  constexpr std::size_t least_stack = std::size_t{1} << 20U;
  pthread_attr_t attributes;
  std::size_t stack = 0;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_getstacksize(&attributes, &stack);
  ::pthread_attr_setstacksize(&attributes, std::max(stack, least_stack));
  ++running;
  const bool started = ::pthread_create(&thread, &attributes, run_guarded, guarded) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) {
    ::pthread_setname_np(thread, name);
  } else {
    --running;
    std::free(guarded);  // NOLINT(cppcoreguidelines-no-malloc)
  }
  return started;
}

bool join_own_thread(pthread_t thread, std::chrono::seconds limit) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += limit.count();
  return ::pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

void retire_own_threads() {
  retired = true;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const auto is_there = [](const std::atomic<pid_t>& place) {
    const pid_t thread = place;
    return thread > 0 || (thread < 0 && ::syscall(SYS_tgkill, ::getpid(), -thread, 0) == 0);
  };
  while ((running > 0 || std::ranges::any_of(own_threads, is_there)) && std::chrono::steady_clock::now() < until)
    stacks::nap(std::chrono::milliseconds(1));
}

void confine_thread() { confined = true; }

bool is_confined() { return confined || retired; }

bool shares_memory_with_its_parent() { return process != ::getpid(); }

bool only_own_threads_left() {
  std::array<char, 512> text{};
  const int file = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  std::string_view fields(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t name_end = fields.rfind(") ");
  if (name_end == std::string_view::npos) return false;
  fields.remove_prefix(name_end + 2);
  if (!fields.starts_with('Z')) return false;  // the state of the main thread
  for (int field = 3; field < 20; ++field) {
    const std::size_t space = fields.find(' ');
    if (space == std::string_view::npos) return false;
    fields.remove_prefix(space + 1);
  }
  unsigned threads = 0;
  std::from_chars(fields.data(), fields.data() + fields.size(), threads);
  return threads == running + 1;  // the main thread is still counted
}

void exit_if_alone() {
  if (!only_own_threads_left()) return;
  // On another thread: exit() waits for ours.
  pthread_t thread{};
  const auto leave = [](void*) -> void* { std::exit(0); };
  if (start_own_thread(thread, "memreel-exit", leave, nullptr)) ::pthread_detach(thread);
}

}  // namespace memreel::agent
