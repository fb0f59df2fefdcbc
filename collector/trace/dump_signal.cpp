#include "collector/trace/dump_signal.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "collector/options/flight_options.h"

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

}  // namespace memreel::agent
