// SPDX-License-Identifier: Apache-2.0
// Functions that Debian's static libraries and headers use from the C library and that glibc 2.28 lacks.
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>

// Since 2.32; libstdc++'s shared_ptr reads it to decide whether non-atomic counts suffice. Unknown here.
char __libc_single_threaded = 0;

// Since 2.36; used by std::random_device.
unsigned arc4random(void) {
  unsigned value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) continue;
  return value;
}

// Since 2.30; std::condition_variable uses it to wait until a steady-clock time. If the realtime clock is set
// meanwhile, this wakes early, which callers must expect anyway, or late.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  struct timespec now, point;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &point);
  point.tv_sec += until->tv_sec - now.tv_sec;
  point.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (point.tv_nsec < 0) {
    --point.tv_sec;
    point.tv_nsec += 1000000000;
  } else if (point.tv_nsec >= 1000000000) {
    ++point.tv_sec;
    point.tv_nsec -= 1000000000;
  }
  return pthread_cond_timedwait(condition, mutex, &point);
}

// Since 2.32: returns "SEGV" for SIGSEGV.
const char* sigabbrev_np(int number) {
  static const char* const names[] = {
      [SIGHUP] = "HUP",       [SIGINT] = "INT",   [SIGQUIT] = "QUIT",   [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
      [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",     [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
      [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE",   [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
      [SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",   [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
      [SIGTTIN] = "TTIN",     [SIGTTOU] = "TTOU", [SIGURG] = "URG",     [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
      [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGIO] = "POLL",   [SIGPWR] = "PWR",
      [SIGSYS] = "SYS"};
  return number > 0 && number < (int)(sizeof names / sizeof *names) ? names[number] : NULL;
}
