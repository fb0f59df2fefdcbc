// SPDX-License-Identifier: Apache-2.0
#include "collector/top/sampled_processes.h"

#include <algorithm>

#include "collector/attach/control_socket.h"
#include "formats/model/printable.h"

namespace memreel::top {

void Growth::add(Clock::time_point time, Bytes value) {
  constexpr std::chrono::seconds apart{1};
  if (samples_.size() >= 2 && time - samples_[samples_.size() - 2].time < apart) samples_.pop_back();
  samples_.push_back({.time = time, .value = value});
  // One older sample stays, so that the window is complete.
  while (samples_.size() > 2 && time - samples_[1].time >= window) samples_.pop_front();
}

std::optional<double> Growth::per_minute() const {
  if (samples_.size() < 2) return std::nullopt;
  const std::chrono::duration<double, std::ratio<60>> minutes = samples_.back().time - samples_.front().time;
  if (minutes.count() <= 0) return std::nullopt;
  return (static_cast<double>(samples_.back().value.count) - static_cast<double>(samples_.front().value.count)) /
         minutes.count();
}

namespace {

constexpr std::chrono::milliseconds patience{500};
constexpr std::chrono::seconds peace{10};

std::tuple<std::int32_t, int, std::string> key_of(const attach::HeapStatus& heap) {
  return {heap.device, static_cast<int>(heap.level), heap.name};
}

/// The heaps shown: on devices, that hold something or once did. A program may have many pools with the same name.
std::vector<attach::HeapStatus> merged(std::vector<attach::HeapStatus> heaps) {
  std::vector<attach::HeapStatus> shown;
  for (attach::HeapStatus& heap : heaps) {
    if (heap.device < 0 || (heap.peak.count == 0 && heap.reserved.count == 0)) continue;
    make_printable(heap.name);
    const auto same = std::ranges::find(shown, key_of(heap), key_of);
    if (same == shown.end()) {
      shown.push_back(std::move(heap));
      continue;
    }
    same->live += heap.live;
    same->peak += heap.peak;
    same->reserved += heap.reserved;
  }
  return shown;
}

}  // namespace

std::optional<WatchedProcess> Watch::ask(pid_t process, Followed& followed, Clock::time_point now) const {
  WatchedProcess watched{.process = process, .name = printable(attach::command_name(process))};
  if (now < followed.ask_again) {
    watched.problem = followed.problem;
    return watched;
  }
  const attach::Reply reply = attach::ask(process, {.word = "status", .fields = {}}, patience);
  if (!reply.reached && reply.answer) return std::nullopt;
  if (!reply.answer) {
    const Error& error = reply.answer.error();
    watched.problem = printable(error.where.empty() ? error.what : error.where + " " + error.what);
    followed.problem = watched.problem;
    followed.ask_again = now + peace;
    return watched;
  }
  watched.status = attach::process_status(*reply.answer);
  for (attach::HeapStatus& heap : merged(std::exchange(watched.status.heaps, {}))) {
    Growth& growth = followed.growth[key_of(heap)];
    growth.add(now, heap.live);
    watched.heaps.push_back({.status = std::move(heap), .growth = growth.per_minute()});
  }
  make_printable(watched.status.rank);
  if (std::exchange(followed.trace, watched.status.trace) != watched.status.trace) followed.analysis.reset();
  return watched;
}

/// The process with the oldest report comes first.
void Watch::analyse(Clock::time_point now) {
  std::vector<attach::Analysis*> queue;
  for (auto& [key, followed] : followed_) {
    if (followed.trace.empty()) continue;
    if (!followed.analysis) followed.analysis = std::make_unique<attach::Analysis>(followed.trace, turn_);
    queue.push_back(followed.analysis.get());
  }
  std::ranges::stable_sort(queue, {}, &attach::Analysis::begun);
  for (attach::Analysis* const analysis : queue) analysis->advance(now);
}

void Watch::refresh(std::span<const pid_t> processes, Clock::time_point now) {
  std::map<Key, Followed> followed;
  processes_.clear();
  for (const pid_t process : processes) {
    const auto start = attach::start_time(process);
    if (!start) continue;
    const auto known = followed_.find({process, *start});
    Followed now_followed = known != followed_.end() ? std::move(known->second) : Followed{};
    auto watched = ask(process, now_followed, now);
    if (!watched) continue;
    if (now_followed.analysis) watched->findings = now_followed.analysis->findings();
    processes_.push_back(*std::move(watched));
    followed[{process, *start}] = std::move(now_followed);
  }
  followed_ = std::move(followed);
  if (analyse_) analyse(now);
}

}  // namespace memreel::top
