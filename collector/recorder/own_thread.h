// The agent's threads in the program's process; all signals are blocked in them.
#pragma once

#include <pthread.h>

#include <chrono>

namespace memreel::agent {

/// `name`: at most 15 characters, shown by tools. False if the system refuses. A thread that runs out of memory ends.
bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument);

/// False if the thread has not ended within `limit`; it is then detached.
bool join_own_thread(pthread_t thread, std::chrono::seconds limit);

/// Whether the program's own threads have all ended, its main thread by pthread_exit(): without ours, the process would
/// have ended with them.
bool only_own_threads_left();

/// Ends the process with exit(0), as the C library does, if so. Call from time to time; it returns in any case.
void exit_if_alone();

}  // namespace memreel::agent
