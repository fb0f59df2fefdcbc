// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/background.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace memreel::viewer {

/// Never needs to yield.
class Turns {
 public:
  explicit Turns(Worker::Work work) : thread_(std::move(work)) {}
  void request_stop() { thread_.request_stop(); }

 private:
  std::jthread thread_;
};

Worker::Worker(Work work) : turns_(std::make_shared<Turns>(std::move(work))) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

void Worker::request_stop() {
  if (turns_) turns_->request_stop();
}

bool work_in_parallel() { return true; }

void do_both(const std::function<void()>& one, const std::function<void()>& other) {
  std::future<void> beside = std::async(other);  // here, if there can be no more threads
  one();
  beside.get();
}

void give_way() {}

void pause(const std::stop_token& stop, std::chrono::milliseconds duration) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace memreel::viewer
