// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/feed.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

namespace memreel::viewer::terminal {

Result<std::unique_ptr<Feed>> Feed::open(std::vector<std::string> arguments, std::function<void()> wake) {
  std::error_code problem;
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / "memreel-top").string();
  arguments.insert(arguments.begin(), {"memreel-top", "top", "--feed"});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  std::array<int, 2> to{-1, -1}, from{-1, -1};
  if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0)
    return Error{.what = "can't make a pipe", .where = {}, .remedy = "close some files"};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A group of its own: the terminal's signals are meant for us, and we end it.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = 0;
  const int refused = ::posix_spawn(&process, program.c_str(), &files, &attributes, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(to[0]);
  ::close(from[1]);
  if (refused != 0) {
    ::close(to[1]);
    ::close(from[0]);
    return Error{.what = "can't start it: " + std::generic_category().message(refused),
                 .where = program,
                 .remedy = "reinstall memreel"};
  }
  auto feed = std::unique_ptr<Feed>(new Feed(process, to[1], from[0], std::move(wake)));
  return feed->latest() ? std::move(feed) : nullptr;
}

Feed::Feed(pid_t process, int input, int output, std::function<void()> wake)
    : process_(process), input_(input), output_(output), wake_(std::move(wake)) {
  std::string line;
  if (!read_line({}, line)) return;
  if (auto recorded = parse_recorded(line)) latest_ = std::make_shared<const Recorded>(*std::move(recorded));
  reader_ = std::jthread([this](const std::stop_token& stop) { read(stop); });
}

Feed::~Feed() {
  ::close(input_);  // which it takes for its end
  reader_.request_stop();
  if (reader_.joinable()) reader_.join();
  ::kill(process_, SIGTERM);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  ::close(output_);
}

std::shared_ptr<const Recorded> Feed::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

bool Feed::read_line(const std::stop_token& stop, std::string& line) {
  constexpr int patience_ms = 100;
  while (true) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return true;
    }
    pollfd file{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&file, 1, patience_ms);
    if (stop.stop_requested()) return false;
    if (ready <= 0) continue;
    std::array<char, 65536> bytes{};
    const ssize_t count = ::read(output_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    unread_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

void Feed::read(const std::stop_token& stop) {
  std::string line;
  bool goes_on = true;
  while (goes_on) {
    goes_on = read_line(stop, line);
    auto recorded = goes_on ? parse_recorded(line) : std::nullopt;
    {
      const std::lock_guard lock(mutex_);
      if (recorded)
        latest_ = std::make_shared<const Recorded>(*std::move(recorded));
      else if (!goes_on)
        latest_.reset();
    }
    wake_();
  }
}

}  // namespace memreel::viewer::terminal
