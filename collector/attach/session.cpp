#include "collector/attach/session.h"

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

constexpr std::chrono::seconds patience{15};  // ending a recording may take 10

Result<Message> told(pid_t process, const char* word) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  Reply reply = ask(process, {.word = word, .fields = {}}, patience);
  if (!reply.reached)
    return Error{.what = "nothing of memreel listens there",
                 .where = "process " + std::to_string(process),
                 .remedy = "memreel attach begins a recording"};
  if (!reply.answer) reply.answer.error().where = "process " + std::to_string(process);
  return std::move(reply.answer);
}

/// By one of the doors that need the program's leave less and less.
Result<Joined> enter(pid_t process, std::chrono::milliseconds limit) {
  Joined joined;
  if (ask(process, {.word = "status", .fields = {}}, patience).reached) return joined;
  // What holds for entering from outside holds for asking Python, too, but for what is said of system calls. It comes
  // first: to wait until such a program uses the GPU would not help.
  if (auto enterable = check_enterable(process); !enterable) return enterable.error();
  if (const auto maps = read_proc(process, "maps");
      maps && !maps->empty() && maps->find("libcuda.so") == std::string::npos)
    return Error{.what = "has not loaded CUDA's driver, libcuda.so.1",
                 .where = "process " + std::to_string(process),
                 .remedy = "attach once it uses the GPU, or start it with memreel record"};
  auto library = record::find_agent();
  if (!library) return library.error();
  if (enter_through_python(process, *library, limit / 4)) {
    joined.door = Joined::Door::python;
    return joined;
  }
  const auto injected = inject(process, *library, limit);
  if (!injected) return injected.error();
  joined.door = Joined::Door::entered;
  joined.pause = injected->pause;
  return joined;
}

}  // namespace

Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit) {
  if (auto alive = check_alive(process); !alive) return alive.error();
  auto joined = enter(process, limit);
  if (!joined) return joined;
  Reply begun = ask(process, {.word = "start", .fields = agent::to_environment(options)}, patience);
  if (begun.answer) {
    joined->status = *std::move(begun.answer);
    return joined;
  }
  Error error = std::move(begun.answer).error();
  error.what.insert(0, error.where.empty() ? "" : error.where + " ");
  error.where = "process " + std::to_string(process);
  return error;
}

Result<Message> leave(pid_t process) { return told(process, "stop"); }

Result<Message> status_of(pid_t process) { return told(process, "status"); }

}  // namespace memreel::attach
