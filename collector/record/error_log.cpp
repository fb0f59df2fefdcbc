#include "collector/record/error_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "collector/record/companion.h"

namespace memreel::record {
namespace {

constexpr off_t longest_explanation = 16384;

/// Closes it at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

/// The exit code; -1 if a signal ended it.
int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The text's whole lines.
std::string text_in(int file) {
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(::lseek(file, 0, SEEK_END), 0, longest_explanation)),
                   '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  text.resize(text.rfind('\n') + 1);
  return text;
}

}  // namespace

ErrorLog::ErrorLog() {
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) != 0 || !S_ISREG(about.st_mode)) return;
  const bool appends = (::fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
  begin_ = appends ? about.st_size : ::lseek(STDERR_FILENO, 0, SEEK_CUR);
}

std::string ErrorLog::explanation() const {
  if (begin_ < 0) return {};
  // A descriptor of its own: the position of ours is the program's, too.
  const Descriptor log(::open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC));
  const Descriptor output(::memfd_create("memreel-explain", MFD_CLOEXEC));
  if (log.number() < 0 || output.number() < 0 || ::lseek(log.number(), begin_, SEEK_SET) < 0) return {};
  const Result<pid_t> child = start_companion("memreel", {"memreel", "explain", "--name", "standard error", "-"},
                                              {.input = log.number(), .output = output.number(), .errors = -1});
  constexpr int found = 1;
  return child && wait_for(*child) == found ? text_in(output.number()) : std::string();
}

}  // namespace memreel::record
