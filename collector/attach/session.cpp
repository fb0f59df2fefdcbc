#include "collector/attach/session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "collector/attach/control_socket.h"
#include "collector/attach/injector.h"
#include "collector/attach/process.h"
#include "collector/attach/python_door.h"
#include "collector/attach/refusal.h"
#include "collector/record/environment.h"

namespace memreel::attach {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{15};  // ending a recording may take 10

std::chrono::milliseconds left_until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

/// Another process's error, as an error of ours.
Error told_by(pid_t process, Error error) {
  error.what.insert(0, error.where.empty() ? "" : error.where + " ");
  error.where = process_name(process);
  return error;
}

Result<Message> told(pid_t process, const char* word) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  Reply reply = ask(process, {.word = word, .fields = {}}, patience);
  if (!reply.reached)
    return Error{.what = "is not being recorded",
                 .where = process_name(process),
                 .remedy = "memreel attach " + std::to_string(process) + " starts a recording"};
  if (!reply.answer) return told_by(process, std::move(reply.answer).error());
  return std::move(reply.answer);
}

/// Tries the attach methods in order of how much they need the program's cooperation.
Result<Joined> enter(pid_t process, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  Joined joined;
  Reply there = ask(process, {.word = "status", .fields = {}}, limit);
  if (there.reached && !there.answer) return told_by(process, std::move(there.answer).error());
  if (there.reached) return joined;
  // The checks for entering from outside also apply to Python's way, except for those on system calls. They come first:
  // for such a program, waiting until it uses the GPU would not help.
  if (auto enterable = check_enterable(process); !enterable) return enterable.error();
  if (const auto maps = read_proc(process, "maps");
      maps && !maps->empty() && maps->find("libcuda.so") == std::string::npos)
    return Error{.what = "has not loaded CUDA's driver, libcuda.so.1",
                 .where = process_name(process),
                 .remedy = "attach once it uses the GPU, or start it with memreel record"};
  auto library = record::find_agent();
  if (!library) return library.error();
  if (enter_through_python(process, *library, left_until(deadline) / 4)) {
    joined.door = Joined::Door::python;
    return joined;
  }
  const auto injected = inject(process, *library, left_until(deadline));
  if (!injected) return injected.error();
  joined.door = Joined::Door::entered;
  joined.pause = injected->pause;
  return joined;
}

}  // namespace

Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  const Clock::time_point deadline = Clock::now() + limit;
  auto joined = enter(process, limit);
  if (!joined) return joined;
  Reply begun = ask(process, {.word = "start", .fields = agent::to_environment(options)}, left_until(deadline));
  if (begun.answer) {
    joined->status = *std::move(begun.answer);
    return joined;
  }
  if (!begun.reached) return Error{.what = "has ended, or closed its control socket", .where = process_name(process)};
  return told_by(process, std::move(begun.answer).error());
}

Result<Message> leave(pid_t process) { return told(process, "stop"); }

Result<Message> status_of(pid_t process) { return told(process, "status"); }

}  // namespace memreel::attach
