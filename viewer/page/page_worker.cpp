// SPDX-License-Identifier: Apache-2.0
// Work in a page, which has one thread: it starts after a frame was drawn, and yields to the next frame if the browser
// can suspend running code (page.js). Otherwise it runs to its end at once.
#include <emscripten/emscripten.h>

#include "viewer/app/window.h"
#include "viewer/model/background.h"
#include "viewer/page/page_window.h"

namespace memreel::viewer {
namespace {

/// Milliseconds of work between frames.
constexpr double longest_turn = 20;

/// Ends abandoned work at the point where it yielded.
struct Abandoned {};

}  // namespace

class Turns {
 public:
  explicit Turns(Worker::Work work) : work_(std::move(work)) {}

  void run() {
    current() = this;
    begun_ = emscripten_get_now();
    try {
      if (!abandoned_) work_(stop_.get_token());
    } catch (const Abandoned&) {  // nothing left to do
    }
    current() = nullptr;
    work_ = nullptr;
  }
  /// Returns after others had their turn, and after at least this long.
  void give_way(double milliseconds) {
    current() = nullptr;
    const bool can_suspend = page_give_way(milliseconds) != 0;
    current() = this;
    begun_ = emscripten_get_now();
    if (abandoned_ || (!can_suspend && milliseconds > 0)) throw Abandoned();
  }
  bool is_long() const { return emscripten_get_now() - begun_ >= longest_turn; }
  void request_stop() { stop_.request_stop(); }
  void abandon() {
    request_stop();
    abandoned_ = true;
  }
  /// The running job; null while a frame is drawn.
  static Turns*& current() {
    static Turns* turns = nullptr;
    return turns;
  }

 private:
  Worker::Work work_;
  std::stop_source stop_;
  double begun_ = 0;  // start of this turn, in milliseconds
  bool abandoned_ = false;
};

Worker::Worker(Work work) : turns_(std::make_shared<Turns>(std::move(work))) {
  page_begin(new std::shared_ptr<Turns>(turns_));  // memreel_run_work() takes it
}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&& other) noexcept {
  if (turns_) turns_->abandon();
  turns_ = std::move(other.turns_);
  return *this;
}
Worker::~Worker() {
  if (turns_) turns_->abandon();
}

void Worker::request_stop() {
  if (turns_) turns_->request_stop();
}

bool work_in_parallel() { return false; }

void do_both(const std::function<void()>& one, const std::function<void()>& other) {
  one();
  give_way();
  other();
}

void give_way() {
  if (Turns* const turns = Turns::current(); turns != nullptr && turns->is_long()) turns->give_way(0);
}

void pause(const std::stop_token& stop, std::chrono::milliseconds duration) {
  Turns* const turns = Turns::current();
  if (turns != nullptr && !stop.stop_requested()) turns->give_way(static_cast<double>(duration.count()));
}

}  // namespace memreel::viewer

void memreel_run_work(void* work) {
  using memreel::viewer::Turns;
  const std::unique_ptr<std::shared_ptr<Turns>> turns(static_cast<std::shared_ptr<Turns>*>(work));
  (*turns)->run();
  memreel::viewer::Window::wake();  // the next frame takes the result, and starts the jobs waiting for it
}
