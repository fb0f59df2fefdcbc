// SPDX-License-Identifier: Apache-2.0
// The agent's threads in the program's process; all signals are blocked in them. A seccomp filter of the program may
// end them.
#pragma once

#include <linux/filter.h>
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <span>

namespace memreel::agent {

// A lock for code that the program's own threads may enter unexpectedly: in a signal handler that interrupted the
// holder, or while exiting the process.

/// Lockable, for std::unique_lock with a limit. Waits are bounded, and a thread never waits for itself. It is seldom
/// held, and then for so long that polling is as good as being woken.
class Gate {
 public:
  /// Returns false at once if the calling thread already holds it, or after `limit` if another thread keeps it.
  bool try_lock_for(std::chrono::milliseconds limit);
  bool try_lock() { return try_lock_for(std::chrono::milliseconds(0)); }
  void unlock() { holder_.store(0, std::memory_order_release); }

  /// In a forked child, where the holder does not exist.
  void reset() { unlock(); }

 private:
  std::atomic<pid_t> holder_ = 0;  // kernel thread ID; 0: unlocked
};

/// `name`: at most 15 characters, shown by tools. False if the system refuses. A thread that runs out of memory ends.
bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument);

/// False if the thread has not ended within `limit`; it is then detached.
bool join_own_thread(pthread_t thread, std::chrono::seconds limit);

/// Ends our part in this process: no thread of ours starts any more, and no Gate opens, so that none of our code makes
/// a system call. Waits until our threads are gone, which the caller has told to end, at most two seconds.
void retire_own_threads();

/// The calling thread must make no system call but the program's: no Gate opens in it.
void confine_thread();

/// Whether that is so in the calling thread, or in all of them, as our threads have retired.
bool is_confined();

/// Whether the caller is a child that shares this memory with the process that the agent is in (vfork): what is stored
/// here is its parent's.
bool shares_memory_with_its_parent();

/// Whether the program's own threads have all ended, its main thread by pthread_exit(): without ours, the process would
/// have ended with them.
bool only_own_threads_left();

/// Ends the process with exit(0), as the C library does, if so. Call from time to time; it returns in any case.
void exit_if_alone();

// What a seccomp filter of the program would do to our threads.

/// Whether a filter lets every system call pass that our threads make. It is run here as the kernel would run it
/// (Documentation/userspace-api/seccomp_filter.rst), with arguments of zero; a program that the kernel would not accept
/// lets nothing pass.
bool lets_own_threads_live(std::span<const sock_filter> filter);

/// The same of the argument of seccomp(2), whatever that points to: what can't be read is no filter, and does no harm.
bool lets_own_threads_live(const sock_fprog* filter);

}  // namespace memreel::agent
