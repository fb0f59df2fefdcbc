#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "formats/reader/trace_reader.h"

namespace memreel {
namespace {

class DiskFile final : public ByteFile {
 public:
  DiskFile(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile() override { ::close(descriptor_); }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return Error{.what = "can't read: " + std::generic_category().message(errno),
                     .where = path_.string(),
                     .offset = offset + done};
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  std::uint64_t size() override {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

class MemoryFile final : public ByteFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto from = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(from.size(), into.size());
    std::copy_n(from.begin(), count, into.begin());
    return count;
  }
  std::uint64_t size() override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

Result<std::shared_ptr<ByteFile>> open_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe may have no writer
  if (descriptor < 0)
    return Error{.what = "can't open: " + std::generic_category().message(errno), .where = path.string()};
  auto file = std::make_shared<DiskFile>(descriptor, path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return Error{.what = "is not a regular file",
                 .where = path.string(),
                 .remedy = "a trace is read by offset: save it to a file"};
  return std::shared_ptr<ByteFile>(std::move(file));
}

std::shared_ptr<ByteFile> memory_file(std::span<const std::byte> bytes) { return std::make_shared<MemoryFile>(bytes); }

}  // namespace memreel
