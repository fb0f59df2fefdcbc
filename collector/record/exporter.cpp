// SPDX-License-Identifier: Apache-2.0
#include "collector/record/exporter.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "collector/record/executable.h"
#include "formats/model/stack_text.h"

namespace memreel::record {
namespace {

constexpr char ready = '+', postponed = '.', failed = '-', between = '\x1f';  // of the line, and of its fields

/// Reads to the end of the line or the file.
std::string read_line(int file) {
  std::string line;
  char letter = 0;
  while (true) {
    const ssize_t size = ::read(file, &letter, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0 || letter == '\n') return line;
    line += letter;
  }
}

std::string line_of(char kind, const Error& error) {
  return kind + error.what + between + error.where + between + error.remedy + '\n';
}

Error error_in(std::string_view line) {
  std::array<std::string, 3> fields;
  for (std::string& field : fields) {
    field = line.substr(0, line.find(between));
    line.remove_prefix(std::min(line.size(), field.size() + 1));
  }
  return {.what = fields[0], .where = fields[1], .offset = {}, .remedy = fields[2]};
}

}  // namespace

std::string ready_line(const std::string& address) { return ready + address + '\n'; }

std::string postponed_line(const Error& error) { return line_of(postponed, error); }

std::string failed_line(const Error& error) { return line_of(failed, error); }

Result<Exporter> Exporter::start(const std::string& target, const std::vector<std::string>& subject) {
  std::array<int, 2> leash{}, said{};
  if (::pipe2(leash.data(), O_CLOEXEC) != 0 || ::pipe2(said.data(), O_CLOEXEC) != 0)
    return Error{.what = "can't create a pipe: " + std::generic_category().message(errno)};
  std::vector<std::string> arguments{"memreel-top", "--companion", "--openmetrics", target};
  arguments.insert(arguments.end(), subject.begin(), subject.end());
  const auto process = start_companion("memreel-top", std::move(arguments),
                                       {.input = leash[0], .output = said[1], .errors = STDERR_FILENO});
  ::close(leash[0]);
  ::close(said[1]);
  const std::string line = process ? read_line(said[0]) : std::string();
  ::close(said[0]);
  if (process && line.starts_with(ready))
    return Exporter(*process, leash[1], "metrics at " + printable(line.substr(1)), false);
  if (process && line.starts_with(postponed)) {
    const Error why = error_in(std::string_view(line).substr(1));
    return Exporter(*process, leash[1],
                    "note: " + printable(why.message()) +
                        "; metrics follow once it is free. For several recordings on " +
                        "one machine: memreel top --openmetrics",
                    true);
  }
  ::close(leash[1]);
  if (!process) return process.error();
  ::waitpid(*process, nullptr, 0);
  if (line.starts_with(failed)) return error_in(std::string_view(line).substr(1));
  return Error{.what = "exited before it could serve metrics", .where = sibling("memreel-top").string()};
}

Exporter::Exporter(Exporter&& other) noexcept
    : process_(std::exchange(other.process_, 0)),
      leash_(std::exchange(other.leash_, -1)),
      says_(std::move(other.says_)),
      waits_(other.waits_) {}

Exporter::~Exporter() {
  if (leash_ >= 0) ::close(leash_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

}  // namespace memreel::record
