// SPDX-License-Identifier: Apache-2.0
// A single-threaded program that notices when it is disturbed:
//
//   waiting_program KIND      sleep, poll, read, futex, select, wait, epoll, compute
//
// It repeats one kind of operation, checks the result, and allocates on the (fake) GPU now and then. While it computes,
// a child sends it a queued signal every millisecond. On SIGTERM it prints this line and exits:
//
//   rounds N wrong N signals RECEIVED of SENT
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/fake/cuda_functions.h"

namespace {

volatile std::sig_atomic_t ending = 0, received = 0;
std::array<int, 2> bytes{};   // written by a child
std::array<int, 2> totals{};  // how many signals a child sent
constexpr timespec moment{.tv_sec = 0, .tv_nsec = 5'000'000};

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

/// Whether at least the interval has passed, as it must have if nothing cut it short.
bool lasted(std::int64_t start) { return now() - start >= moment.tv_nsec; }

bool sleep_once() {
  const std::int64_t start = now();
  return nanosleep(&moment, nullptr) == 0 && lasted(start);
}

bool poll_once() {
  const std::int64_t start = now();
  return poll(nullptr, 0, 5) == 0 && lasted(start);
}

bool read_once() {
  char byte = 0;
  return read(bytes[0], &byte, 1) == 1;
}

bool futex_once() {
  const std::int64_t start = now();
  const std::uint32_t word = 0;
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &moment, nullptr, 0) == -1 && errno == ETIMEDOUT &&
         lasted(start);
}

bool select_once() {
  const std::int64_t start = now();
  timeval time{.tv_sec = 0, .tv_usec = moment.tv_nsec / 1000};
  return select(0, nullptr, nullptr, nullptr, &time) == 0 && lasted(start);
}

bool wait_once() {
  const pid_t child = fork();
  if (child == 0) {
    nanosleep(&moment, nullptr);
    _exit(7);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

bool epoll_once() {
  static const int file = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  return epoll_wait(file, &event, 1, 50) == 0;
}

/// Gives the same results every time, using registers of every kind, and preserves errno.
bool compute_once() {
  errno = 4711;
  double sum = 0;
  long double wide = 0;
  std::uint64_t hash = 1;
  for (int i = 1; i <= 200'000; ++i) {
    sum += 1.0 / i;
    wide += 1.0L / static_cast<long double>(i);
    hash = hash * 6364136223846793005ULL + 1442695040888963407ULL;
  }
  static const double first_sum = sum;
  static const long double first_wide = wide;
  static const std::uint64_t first_hash = hash;
  return sum == first_sum && wide == first_wide && hash == first_hash && errno == 4711;
}

struct Kind {
  const char* name;
  bool (*once)();
};
constexpr std::array kinds{Kind{"sleep", sleep_once}, Kind{"poll", poll_once},      Kind{"read", read_once},
                           Kind{"futex", futex_once}, Kind{"select", select_once},  Kind{"wait", wait_once},
                           Kind{"epoll", epoll_once}, Kind{"compute", compute_once}};

pid_t start_child(void (*body)(pid_t parent)) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  body(parent);
  _exit(0);
}

void write_bytes(pid_t) {
  for (const char byte = 0; write(bytes[1], &byte, 1) == 1;) nanosleep(&moment, nullptr);
}

void send_signals(pid_t parent) {
  std::signal(SIGTERM, [](int) { ending = 1; });
  constexpr timespec millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  int sent = 0;
  for (; ending == 0; nanosleep(&millisecond, nullptr))
    sent += sigqueue(parent, SIGRTMIN, {.sival_int = sent}) == 0 ? 1 : 0;
  if (write(totals[1], &sent, sizeof sent) != sizeof sent) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const Kind* kind = nullptr;
  for (const Kind& candidate : kinds)
    if (name == candidate.name) kind = &candidate;
  if (kind == nullptr || pipe(bytes.data()) != 0 || pipe(totals.data()) != 0) return 2;
  std::signal(SIGTERM, [](int) { ending = 1; });
  struct sigaction counted {};
  counted.sa_handler = [](int) { received = received + 1; };
  counted.sa_flags = SA_RESTART;
  sigaction(SIGRTMIN, &counted, nullptr);

  const pid_t writer = name == "read" ? start_child(write_bytes) : 0;
  const pid_t sender = name == "compute" ? start_child(send_signals) : 0;
  fake::Context* context = nullptr;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return 3;
  fake::DevicePointer kept = 0;
  if (cuMemAlloc_v2(&kept, 1U << 20U) != 0) return 4;
  std::puts("ready");
  std::fflush(stdout);

  long rounds = 0, wrong = 0;
  while (ending == 0) {
    const bool sound = kind->once();
    if (ending != 0) break;  // the terminating signal may have cut it short
    ++rounds;
    if (!sound) ++wrong;
    fake::DevicePointer pointer = 0;
    if (cuMemAlloc_v2(&pointer, 4096) != 0 || cuMemFree_v2(pointer) != 0) return 5;
  }
  int sent = 0;
  if (sender != 0) {
    kill(sender, SIGTERM);
    if (read(totals[0], &sent, sizeof sent) != sizeof sent) return 6;
    waitpid(sender, nullptr, 0);
  }
  if (writer != 0) kill(writer, SIGKILL);
  std::printf("rounds %ld wrong %ld signals %d of %d\n", rounds, wrong, static_cast<int>(received), sent);
  return 0;
}
