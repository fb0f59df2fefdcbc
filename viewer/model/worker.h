// Runs work that takes longer than a frame.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>

namespace memreel::viewer {

/// The state and progress of a Worker.
class Turns;

/// A separate thread (worker.cpp). A page in a browser has no threads: it interleaves the work with frames
/// (viewer/page/page_worker.cpp) whenever the work yields.
class Worker {
 public:
  using Work = std::function<void(const std::stop_token&)>;

  Worker() = default;
  explicit Worker(Work work);
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  /// Requests the work to stop. Waits for a thread. In a page the work ends where it next yields, and the objects that
  /// it would have written to may be gone by then.
  ~Worker();

  void request_stop();

 private:
  std::shared_ptr<Turns> turns_;
};

/// Called by work as often as possible: yields to frames if there is one thread for both. Costs nothing elsewhere.
void give_way();
/// Called by work: waits until `stop`, or for this long.
void pause(const std::stop_token& stop, std::chrono::milliseconds duration);

}  // namespace memreel::viewer
