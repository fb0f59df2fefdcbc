// SPDX-License-Identifier: Apache-2.0
// The page that a borrowed thread's code works with. That code is machine code, which knows these offsets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collector/attach/bootstrap.h"

namespace memreel::attach {

struct PageLayout {
  std::uint64_t pthread_create, dlopen, dlsym, dlerror, errno_location;  // 0x00 .. 0x20
  std::uint64_t page, size;                                              // 0x28, 0x30
  std::uint64_t thread;                                                  // 0x38: pthread_t that is started
  std::uint64_t loader;                                                  // 0x40: address of `loading`
  std::uint64_t frame;                                                   // 0x48: address of the signal frame
  BootstrapNews news;                                                    // 0x50
  std::array<std::uint64_t, 2> patience;                                 // 0x68: timespec
  std::uint64_t released;                                                // 0x78
  std::array<char, 64> visit;                                            // 0x80
  std::array<char, 4096> library;                                        // 0xC0
  std::array<std::byte, 256> bootstrap, loading;
};
static_assert(offsetof(PageLayout, news) == 0x50 && sizeof(BootstrapNews) == 0x18);
static_assert(offsetof(PageLayout, patience) == 0x68 && offsetof(PageLayout, released) == Bootstrap::released_at);
static_assert(offsetof(PageLayout, visit) == 0x80 && offsetof(PageLayout, library) == 0xC0);

}  // namespace memreel::attach
