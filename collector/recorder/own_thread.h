// The agent's threads in the program's process; all signals are blocked in them.
#pragma once

#include <pthread.h>

#include <chrono>

namespace memreel::agent {

/// `name`: at most 15 characters, shown by tools. False if the system refuses.
bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument);

/// False if the thread has not ended within `limit`; it is then detached.
bool join_own_thread(pthread_t thread, std::chrono::seconds limit);

}  // namespace memreel::agent
