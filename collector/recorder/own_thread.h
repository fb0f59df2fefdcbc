// Threads of the library in the program's process: they take none of its signals.
#pragma once

#include <pthread.h>

#include <chrono>

namespace memreel::agent {

/// `name`: at most 15 characters, shown by tools. False when the system refuses.
bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument);

/// False when the thread has not ended within `limit`; it is left to itself then.
bool join_own_thread(pthread_t thread, std::chrono::seconds limit);

}  // namespace memreel::agent
