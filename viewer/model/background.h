// SPDX-License-Identifier: Apache-2.0
// Work that takes longer than a frame: done in the background while the previous result stays on screen.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

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

/// Whether workers run at the same time; otherwise one may wait for no other.
bool work_in_parallel();
/// Called by work: does both, at the same time where workers do. Throws what either throws, once both have ended.
void do_both(const std::function<void()>& one, const std::function<void()>& other);
/// Called by work as often as possible: yields to frames if there is one thread for both. Costs nothing elsewhere.
void give_way();
/// Called by work: waits until `stop`, or for this long.
void pause(const std::stop_token& stop, std::chrono::milliseconds duration);

/// A job's handle for progress and cancellation.
class Progress {
 public:
  Progress(std::stop_token stop, std::atomic<float>& share) : stop_(std::move(stop)), share_(&share) {}
  bool cancelled() const {
    give_way();
    return stop_.stop_requested();
  }
  /// 0 .. 1
  void set(double share) const {
    give_way();
    share_->store(static_cast<float>(share), std::memory_order_relaxed);
  }

 private:
  std::stop_token stop_;
  std::atomic<float>* share_;
};

/// The value for a key, or the latest one computed so far. For use from one thread.
///
/// Only request() and value() notice that a job is done, so that what shows a value and what says that it is being
/// computed agree: a value that came after it was asked for is not current before the next time.
///
/// One job runs at a time; of the keys requested meanwhile, only the last is computed. A job that runs out of memory is
/// abandoned.
template <class Key, class Value>
class Background {
 public:
  using Work = std::function<std::optional<Value>(const Progress&)>;  // none if cancelled

  /// Requests the value of `key`; `work` computes it and must not touch mutable data. Does nothing if the value is
  /// present, being computed or abandoned. `cancel`: abandon the value being computed, which helps when jobs take long
  /// and hurts when keys change faster than jobs finish. Returns whether `work` was accepted.
  bool request(const Key& key, Work work, bool cancel = true) {
    poll();
    if (wanted_ && *wanted_ == key) return false;
    wanted_ = key;
    given_up_ = false;
    if (job_) {
      next_ = std::move(work);
      if (cancel) job_->worker.request_stop();
      return true;
    }
    start(key, std::move(work));
    return true;
  }

  /// The latest value; null before there is one.
  const std::shared_ptr<const Value>& value() {
    poll();
    return value_;
  }
  /// The key of value().
  const std::optional<Key>& key() const { return value_key_; }
  /// Whether what value() last returned is the value last requested.
  bool is_current() const { return !job_ && (given_up_ || wanted_ == value_key_); }
  bool running() const { return job_ != nullptr; }
  /// Zero if no job runs.
  std::chrono::steady_clock::duration running_for() const {
    return job_ ? std::chrono::steady_clock::now() - job_->start : std::chrono::steady_clock::duration::zero();
  }
  float progress() const { return job_ ? job_->share.load(std::memory_order_relaxed) : 1.0F; }
  /// Abandons the running job; requests for its key are ignored until another key is requested or retry() is called.
  void give_up() {
    if (job_) job_->worker.request_stop();
    next_ = nullptr;
    given_up_ = true;
  }
  bool given_up() const { return given_up_; }
  /// Allows an abandoned value to be requested again.
  void retry() {
    if (given_up_) wanted_.reset();
    given_up_ = false;
  }

 private:
  struct Job {
    Key key;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::atomic<float> share{0};
    std::atomic<bool> done{false};
    bool out_of_memory = false;  // valid once done
    std::optional<Value> result;
    Worker worker;  // last member: it uses the others
    explicit Job(Key k) : key(std::move(k)) {}
  };

  void start(const Key& key, Work work) {
    job_ = std::make_unique<Job>(key);
    Job* job = job_.get();
    job->worker = Worker([job, work = std::move(work)](const std::stop_token& stop) {
      try {
        job->result = work(Progress(stop, job->share));
      } catch (const std::bad_alloc&) {
        job->out_of_memory = true;
      }
      job->done.store(true, std::memory_order_release);
    });
  }

  void poll() {
    if (!job_ || !job_->done.load(std::memory_order_acquire)) return;
    const std::unique_ptr<Job> job = std::move(job_);
    job->worker = Worker();  // joins, so that what the thread wrote is visible
    if (job->result) {
      value_ = std::make_shared<const Value>(*std::move(job->result));
      value_key_ = job->key;
    }
    if (job->out_of_memory) given_up_ = !next_;
    if (next_) {
      start(*wanted_, std::exchange(next_, nullptr));
    } else if (!job->result && !given_up_) {
      wanted_ = value_key_;
    }
  }

  std::unique_ptr<Job> job_;
  Work next_;
  std::optional<Key> wanted_, value_key_;
  bool given_up_ = false;
  std::shared_ptr<const Value> value_;
};

}  // namespace memreel::viewer
