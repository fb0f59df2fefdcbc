#include "collector/agent/own_thread.h"

#include <csignal>
#include <ctime>

namespace memreel::agent {

bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument) {
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = ::pthread_create(&thread, nullptr, body, argument) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) ::pthread_setname_np(thread, name);
  return started;
}

bool join_own_thread(pthread_t thread, std::chrono::seconds limit) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += limit.count();
  return ::pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

}  // namespace memreel::agent
