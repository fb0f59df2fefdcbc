// SPDX-License-Identifier: Apache-2.0
// Experiments with CUDA's allocators, written as scripts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "analyzer/replay/device/gpu.h"
#include "analyzer/replay/policies/cuda_async.h"

namespace memreel::gpu {

/// Commands and their answers. Addresses are relative to the first one of their kind.
///
///   pool THRESHOLD MAX EVENTS OPPORTUNISTIC INTERNAL   a new pool; THRESHOLD is bytes or max, MAX 0 for no limit
///   a SLOT SIZE STREAM      cuMemAllocFromPoolAsync    -> address reserved used
///   r SLOT STREAM           cuMemFreeAsync             -> reserved used
///   m SLOT SIZE             cuMemAlloc                 -> address taken (how far the device's free memory fell)
///   f SLOT                  cuMemFree                  -> taken
///   sync | ssync STREAM | trim BYTES | event FROM TO | wait MICROSECONDS
///   block STREAM | unblock STREAM                      a host function that waits, to keep the stream busy
class Script {
 public:
  explicit Script(Gpu& gpu) : gpu_(gpu), free_at_start_(gpu.free_memory()) {}

  void run(std::istream& file) {
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string command;
      if (!(words >> command) || command[0] == '#') {
        std::cout << line << '\n';
        continue;
      }
      std::cout << line << " :";
      run(command, words);
      std::cout << '\n';
    }
    for (auto& [stream, gate] : gates_) gate = true;
  }

 private:
  void run(const std::string& command, std::istringstream& words) {
    const Driver& driver = gpu_.driver();
    std::uint64_t slot = 0;
    std::uint64_t size = 0;
    int stream = 0;
    if (command == "pool") {
      std::string threshold;
      int events = 1;
      int opportunistic = 1;
      int internal = 1;
      words >> threshold >> size >> events >> opportunistic >> internal;
      driver->synchronize();
      if (pool_ != nullptr) driver->destroy_pool(pool_);
      blocks_.clear();
      first_ = 0;
      pool_ = gpu_.create_pool(size > 0 ? std::optional(Bytes{size}) : std::nullopt,
                               threshold == "max" ? CudaAsyncSettings::never : Bytes{std::stoull(threshold)});
      gpu_.set_pool_flag(pool_, PoolAttribute::follow_event_dependencies, events != 0);
      gpu_.set_pool_flag(pool_, PoolAttribute::allow_opportunistic, opportunistic != 0);
      gpu_.set_pool_flag(pool_, PoolAttribute::allow_internal_dependencies, internal != 0);
    } else if (command == "a") {
      words >> slot >> size >> stream;
      DevicePointer pointer = 0;
      const Status status = driver->malloc_async(&pointer, size, pool_, stream_of(stream));
      if (status != success) {
        std::cout << " failed " << status;
      } else {
        if (first_ == 0) first_ = pointer;
        blocks_[slot] = pointer;
        std::cout << ' ' << static_cast<std::int64_t>(pointer - first_);
      }
      print_pool();
    } else if (command == "r") {
      words >> slot >> stream;
      const Status status = driver->free_async(blocks_[slot], stream_of(stream));
      if (status != success) std::cout << " failed " << status;
      print_pool();
    } else if (command == "m") {
      words >> slot >> size;
      DevicePointer pointer = 0;
      const Status status = driver->malloc(&pointer, size);
      if (status != success) {
        std::cout << " failed " << status;
      } else {
        if (first_malloc_ == 0) first_malloc_ = pointer & ~((DevicePointer{2} << 20U) - 1);
        mallocs_[slot] = pointer;
        std::cout << ' ' << static_cast<std::int64_t>(pointer - first_malloc_);
      }
      print_taken();
    } else if (command == "f") {
      words >> slot;
      const Status status = driver->free(mallocs_[slot]);
      if (status != success) std::cout << " failed " << status;
      print_taken();
    } else if (command == "sync") {
      driver->synchronize();
      print_pool();
    } else if (command == "ssync") {
      words >> stream;
      driver->synchronize_stream(stream_of(stream));
      print_pool();
    } else if (command == "trim") {
      words >> size;
      driver->trim_pool(pool_, size);
      print_pool();
    } else if (command == "event") {
      int waiting = 0;
      words >> stream >> waiting;
      gpu_.order(stream_of(stream), stream_of(waiting));
    } else if (command == "wait") {
      words >> size;
      std::this_thread::sleep_for(std::chrono::microseconds(size));
      print_pool();
    } else if (command == "block") {
      words >> stream;
      std::atomic<bool>& gate = gates_[stream];
      gate = false;
      driver->launch_host_function(
          stream_of(stream),
          [](void* open) {
            while (!*static_cast<std::atomic<bool>*>(open)) std::this_thread::sleep_for(std::chrono::microseconds(20));
          },
          &gate);
    } else if (command == "unblock") {
      words >> stream;
      gates_[stream] = true;
    } else {
      std::cout << " unknown command";
    }
  }

  Stream stream_of(int number) {
    const auto [found, is_new] = streams_.try_emplace(number);
    if (is_new && number > 0) found->second = gpu_.create_stream();
    return found->second;
  }

  void print_pool() {
    if (pool_ == nullptr) return;
    std::cout << ' ' << gpu_.pool_bytes(pool_, PoolAttribute::reserved_current).count << ' '
              << gpu_.pool_bytes(pool_, PoolAttribute::used_current).count;
  }
  void print_taken() { std::cout << ' ' << static_cast<std::int64_t>(free_at_start_.count - gpu_.free_memory().count); }

  Gpu& gpu_;
  Bytes free_at_start_;
  Pool pool_ = nullptr;
  DevicePointer first_ = 0, first_malloc_ = 0;
  std::map<int, Stream> streams_;
  std::map<int, std::atomic<bool>> gates_;
  std::map<std::uint64_t, DevicePointer> blocks_, mallocs_;
};

}  // namespace memreel::gpu
