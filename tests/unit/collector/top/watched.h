// SPDX-License-Identifier: Apache-2.0
// Processes as `memreel top` sees them.
#pragma once

#include <string>
#include <utility>

#include "collector/top/sampled_processes.h"

namespace memreel::top {

inline WatchedProcess watched(pid_t process, std::string name, Bytes live) {
  WatchedProcess made;
  made.process = process;
  made.name = std::move(name);
  made.status.recording = true;
  made.status.rank = "3";
  made.status.events = 17;
  made.status.devices = {{.device = 0, .used = 3_GiB, .free = 5_GiB}};
  attach::HeapStatus heap;
  heap.level = Level::framework;
  heap.name = "torch.cuda";
  heap.live = live;
  heap.peak = 2_GiB;
  heap.reserved = 4_GiB;
  made.heaps = {{.status = heap, .growth = 1024.0}};
  return made;
}

}  // namespace memreel::top
