#include "collector/record/companion.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <system_error>

namespace memreel::record {

std::filesystem::path sibling(std::string_view program) {
  std::error_code problem;
  return std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / program;
}

Result<pid_t> start_companion(std::string_view program, std::vector<std::string> arguments, const Streams& streams) {
  const std::string path = sibling(program).string();
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const auto connect = [&](int to, int from) {
    if (from >= 0)
      ::posix_spawn_file_actions_adddup2(&files, from, to);
    else
      ::posix_spawn_file_actions_addopen(&files, to, "/dev/null", O_RDWR, 0);
  };
  connect(STDIN_FILENO, streams.input);
  connect(STDOUT_FILENO, streams.output);
  connect(STDERR_FILENO, streams.errors);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int refused = ::posix_spawn(&process, path.c_str(), &files, &attributes, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (refused == 0) return process;
  return Error{.what = "can't start it: " + std::generic_category().message(refused),
               .where = path,
               .remedy = "reinstall memreel"};
}

}  // namespace memreel::record
