// SPDX-License-Identifier: Apache-2.0
#include "collector/agent/agent.h"

#include <pthread.h>

#include <atomic>

#include "collector/attach/control_socket.h"
#include "collector/attach/process.h"
#include "collector/options/options.h"
#include "collector/recorder/own_thread.h"

namespace memreel::agent::control {
namespace {

using attach::Answer, attach::ControlSocket, attach::Message;

constinit ControlSocket ear;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a process has one

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): as above
constinit std::atomic<bool> is_hung_up = false;

/// Once, before it is open.
void close_in_children() {
  static const int done = ::pthread_atfork(nullptr, nullptr, [] { ear.close(); });
  static_cast<void>(done);
}

Message described(const Status& status) {
  attach::ProcessStatus told{.recording = status.recording,
                             .trace = status.trace,
                             .source = status.source,
                             .rank = status.rank,
                             .events = status.progress.events,
                             .lost = status.progress.lost,
                             .heaps = {},
                             .devices = {}};
  for (const HeapUsage& heap : status.memory.heaps)
    told.heaps.push_back({.device = heap.device,
                          .level = heap.level,
                          .live = heap.live,
                          .peak = heap.peak,
                          .reserved = heap.reserved,
                          .name = heap.name});
  for (const DeviceUsage& device : status.memory.devices)
    told.devices.push_back({.device = device.device, .used = device.used, .free = device.free});
  return to_message(told);
}

Message started(const Message& question) {
  const auto options = read_options([&](const char* name) -> std::optional<std::string> {
    for (const auto& [field, value] : question.fields)
      if (field == name) return value;
    return std::nullopt;
  });
  if (!options) return attach::error_message(options.error());
  const auto status = join(*options);
  return status ? described(*status) : attach::error_message(status.error());
}

Message stopped() {
  const auto outcome = leave("detached");
  if (outcome && !outcome->result) {
    Error error = outcome->result.error();
    error.what += "; " + std::to_string(outcome->lost) + " events lost";
    return attach::error_message(error);
  }
  const Recording::Outcome told = outcome.value_or(Recording::Outcome{});
  return {.word = "ok",
          .fields = {{"trace", told.trace},
                     {"events", std::to_string(told.events)},
                     {"lost", std::to_string(told.lost)},
                     {"cost_ns", std::to_string(told.cost_ns)},
                     {"own_ns", std::to_string(told.own_ns)}}};
}

Message dumped() {
  constexpr std::chrono::seconds limit{60};
  const auto file = dump(limit);
  return file ? Message{.word = "ok", .fields = {{"trace", *file}}} : attach::error_message(file.error());
}

Message walked(const Message& question) {
  auto table = holders(std::string(question["site"]), std::string(question["allocated"]));
  return table ? Message{.word = "ok", .fields = {{"holders", *std::move(table)}}}
               : attach::error_message(table.error());
}

Answer answer(const Message& question, bool is_visit) {
  if (question.word == "start") return {.message = started(question)};
  if (question.word == "stop") return {.message = stopped(), .last = is_visit};
  if (question.word == "dump") return {.message = dumped()};
  if (question.word == "holders") return {.message = walked(question)};
  if (question.word == "status") return {.message = described(status())};
  return {.message = attach::error_message({.what = "unknown request \"" + question.word + "\"",
                                            .remedy = "use the same version of memreel that started the program"})};
}

bool open_socket() {
  close_in_children();
  return ear.open();
}

bool start_listener(void* (*body)(void*)) {
  pthread_t thread{};
  return start_own_thread(thread, "memreel-control", body, nullptr) && ::pthread_detach(thread) == 0;
}

}  // namespace

void listen() {
  if (!open_socket()) return;
  const auto body = [](void*) -> void* {
    // A program whose main thread has left by pthread_exit() ends with its last other thread: our own don't count.
    constexpr std::chrono::milliseconds period{250};
    ear.run([](const Message& question) { return answer(question, false); }, period,
            [] {
              exit_if_alone();
              return is_hung_up.load();
            });
    return nullptr;
  };
  if (!start_listener(body)) ear.close();
}

void visit(const std::function<bool()>& may_clean_up) {
  if (!open_socket()) return;
  constexpr std::chrono::seconds patience{10};
  bool clean = false;
  const auto answer_visitor = [&](const Message& question) {
    clean = clean || may_clean_up();
    return answer(question, true);
  };
  ear.run(answer_visitor, patience, [] { return is_hung_up || !status().recording; });
  if (!clean) may_clean_up();
}

void hang_up() {
  is_hung_up = true;
  ear.hang_up();
}

void invite() {
  start_listener([](void*) -> void* {
    visit([] { return true; });
    return nullptr;
  });
}

}  // namespace memreel::agent::control
