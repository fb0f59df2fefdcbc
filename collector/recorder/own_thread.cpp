#include "collector/recorder/own_thread.h"

#include <algorithm>
#include <csignal>
#include <ctime>

namespace memreel::agent {

bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument) {
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
  const bool started = ::pthread_create(&thread, &attributes, body, argument) == 0;
  ::pthread_attr_destroy(&attributes);
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
