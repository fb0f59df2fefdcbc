// SPDX-License-Identifier: Apache-2.0
// A recorded program's own account of its events, to compare a trace with it event by event.
//
// One line for each event, in one write, to the file that MEMREEL_TRUTH names, else to standard output:
//
//   truth TIME THREAD EVENT HEAP ADDRESS BYTES [DEVICE]
//
// TIME is in nanoseconds since 1970, taken before a free and after an allocation; THREAD is the kernel's thread id;
// ADDRESS is hexadecimal. EVENT and HEAP: alloc, free and alloc_failed of linear, managed, pinned, registered, array,
// ordered (a stream's), imported (another process's) and physical memory (which has no address: 0); map and unmap of
// mapped and of imported memory; reserve and release of addresses; node and free_node of a graph. DEVICE is CUDA's
// ordinal, if there are several.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace truth {

inline int file() {
  static const int opened = [] {
    const char* name = std::getenv("MEMREEL_TRUTH");  // NOLINT(concurrency-mt-unsafe)
    return name != nullptr ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : STDOUT_FILENO;
  }();
  return opened;
}

/// `device`: -1 to leave it out.
inline void say(const char* event, const char* heap, std::uint64_t address, std::uint64_t bytes, int device = -1) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::array<char, 176> line{};
  std::array<char, 16> where{};
  if (device >= 0) std::snprintf(where.data(), where.size(), " %d", device);
  const int length =
      std::snprintf(line.data(), line.size(), "truth %lld%09ld %ld %s %s 0x%llx %llu%s\n",
                    static_cast<long long>(now.tv_sec), now.tv_nsec, syscall(SYS_gettid), event, heap,
                    static_cast<unsigned long long>(address), static_cast<unsigned long long>(bytes), where.data());
  if (write(file(), line.data(), static_cast<std::size_t>(length)) != length) std::abort();
}

template <class T>
std::uint64_t number(T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
inline std::uint64_t number(std::uint64_t pointer) { return pointer; }

template <class P>
void allocated(const char* heap, P pointer, std::uint64_t bytes) {
  say("alloc", heap, number(pointer), bytes);
}
/// Write it before the call: afterwards the address may already belong to another thread.
template <class P>
void freeing(const char* heap, P pointer, std::uint64_t bytes) {
  say("free", heap, number(pointer), bytes);
}
inline void failed(const char* heap, std::uint64_t bytes) { say("alloc_failed", heap, 0, bytes); }

}  // namespace truth
