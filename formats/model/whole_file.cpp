#include "formats/model/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace memreel {

Result<std::string> read_whole_file(const std::filesystem::path& file, std::string remedy) {
  constexpr std::size_t step = 16384;
  const auto failed = [&](std::string what) {
    return Error{.what = std::move(what), .where = file.string(), .offset = {}, .remedy = std::move(remedy)};
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return failed("can't be opened: " + std::generic_category().message(errno));
  std::string text;
  ssize_t count = 1;
  while (count > 0 && text.size() <= most_of_a_whole_file) {
    const std::size_t length = text.size();
    text.resize(length + step);
    do count = ::read(descriptor, text.data() + length, step);
    while (count < 0 && errno == EINTR);
    text.resize(length + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  const int problem = errno;
  ::close(descriptor);
  if (count < 0) return failed("can't be read: " + std::generic_category().message(problem));
  if (count > 0) return failed("is larger than 256 MiB");
  return text;
}

}  // namespace memreel
