// Where work is done that takes longer than a frame.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>

namespace memreel::viewer {

/// What a Worker does, and how far it is.
class Turns;

/// A thread of its own (worker.cpp). A page in a browser has none: it does the work in turns, between frames
/// (viewer/page/page_worker.cpp), as far as the work gives way.
class Worker {
 public:
  using Work = std::function<void(const std::stop_token&)>;

  Worker() = default;
  explicit Worker(Work work);
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  /// Asks the work to stop. A thread is waited for. In a page the work ends where it gives way next, and what it would
  /// have written to afterwards may be gone.
  ~Worker();

  void request_stop();

 private:
  std::shared_ptr<Turns> turns_;
};

/// For work, as often as it can: lets frames be drawn where there is one thread for both. Costs nothing elsewhere.
void give_way();
/// For work: waits until `stop`, or for so long.
void pause(const std::stop_token& stop, std::chrono::milliseconds duration);

}  // namespace memreel::viewer
