#include "analyzer/cli/helper.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "analyzer/cli/failure_lines.h"
#include "formats/import/import.h"
#include "formats/model/printable.h"

namespace memreel::cli {

void settle_in(int last_file) {
  constexpr unsigned seconds = 60;
  sigset_t none{};
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGALRM, SIGPIPE}) std::signal(signal, SIG_DFL);
  ::setsid();
  ::setpriority(PRIO_PROCESS, 0, 10);
  ::alarm(seconds);
  // In case the kernel could not do it: close what was inherited from the program.
  std::vector<int> others;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", problem)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number > last_file) others.push_back(number);
  }
  for (const int number : others) ::close(number);
}

void say(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "memreel: " + printable(line) + "\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

std::vector<std::string> lines_of_dump(const std::string& dump, const std::string& otherwise) {
  auto trace = open_any(dump);
  std::vector<std::string> lines = trace ? failure_lines(*std::move(trace)) : std::vector{otherwise};
  lines.push_back("dump: " + dump + " (memreel report --oom " + dump + ")");
  return lines;
}

Exit say_failure_lines(std::span<char* const> arguments) {
  if (arguments.size() != 2)
    return fail({.what = "is run by memreel's Python package only", .where = "memreel failure-lines"});
  settle_in(STDERR_FILENO);
  say(lines_of_dump(arguments[0], arguments[1]));
  return Exit::done;
}

}  // namespace memreel::cli
