#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "formats/model/guest_file.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

Error system_error(std::string what, const std::filesystem::path& path, std::string remedy = {}) {
  return {.what = std::move(what) + ": " + std::generic_category().message(errno),
          .where = path.string(),
          .remedy = std::move(remedy)};
}

/// An open file, closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// True when the system took everything.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

Result<void> write_all(int file, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("can't write", path, "is the disk full?");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

class FileSink : public ByteSink {
 public:
  FileSink(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  Result<void> write(std::span<const std::byte> bytes) override { return write_all(file_.number(), bytes, path_); }

  Result<void> close() override {
    if (!file_.close()) return system_error("can't write", path_, "is the disk full?");
    return {};
  }

 private:
  Descriptor file_;
  std::filesystem::path path_;
};

class AtomicFileSink final : public FileSink {
 public:
  AtomicFileSink(Descriptor file, std::filesystem::path temporary, std::filesystem::path path)
      : FileSink(std::move(file), path), temporary_(std::move(temporary)), path_(std::move(path)) {}
  AtomicFileSink(const AtomicFileSink&) = delete;
  AtomicFileSink& operator=(const AtomicFileSink&) = delete;
  ~AtomicFileSink() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<void> close() override {
    if (auto closed = FileSink::close(); !closed) return closed;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("can't create the file", path_);
    temporary_.clear();
    return {};
  }

 private:
  std::filesystem::path temporary_;  // empty once it has its name
  std::filesystem::path path_;
};

/// In a program that may close the file and open one of its own under the same number.
class GuestFileSink final : public ByteSink {
 public:
  GuestFileSink(int file, FileIdentity identity, std::filesystem::path path)
      : file_(file), identity_(identity), path_(std::move(path)) {}
  GuestFileSink(const GuestFileSink&) = delete;
  GuestFileSink& operator=(const GuestFileSink&) = delete;
  ~GuestFileSink() override {
    if (is_there()) ::close(file_);
  }

  Result<void> write(std::span<const std::byte> bytes) override {
    if (!is_there() && !open_again())
      return Error{.what = "the program has closed the trace, which is not there any more", .where = path_.string()};
    return write_all(file_, bytes, path_);
  }

  Result<void> close() override {
    const int file = std::exchange(file_, -1);
    if (identity_of(file) == identity_ && ::close(file) != 0)
      return system_error("can't write", path_, "is the disk full?");
    return {};
  }

 private:
  bool is_there() const { return file_ >= 0 && identity_of(file_) == identity_; }

  bool open_again() {
    const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return false;
    if (identity_of(file) != identity_) {
      ::close(file);
      return false;
    }
    file_ = move_up(file);
    return true;
  }

  int file_;
  FileIdentity identity_;
  std::filesystem::path path_;
};

class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace

Result<std::unique_ptr<ByteSink>> atomic_file_sink(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status))
    return Error{.what = "is a directory", .where = path.string(), .remedy = "name a file"};
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    // A pipe or /dev/stdout must not be replaced by a file.
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return system_error("can't open for writing", path);
    return std::unique_ptr<ByteSink>(std::make_unique<FileSink>(std::move(file), path));
  }
  // Through a symbolic link, the file that it names is replaced, not the link.
  std::filesystem::path target = std::filesystem::weakly_canonical(path, ignored);
  if (target.empty()) target = path;
  for (unsigned attempt = 0;; ++attempt) {
    std::filesystem::path temporary = target;
    temporary += "." + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".part";
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file)
      return std::unique_ptr<ByteSink>(
          std::make_unique<AtomicFileSink>(std::move(file), std::move(temporary), std::move(target)));
    if (errno != EEXIST) return system_error("can't create the file", path, "does its directory exist?");
  }
}

Result<std::unique_ptr<ByteSink>> live_file_sink(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST)
    return Error{.what = "exists already", .where = path.string(), .remedy = "remove it or choose another name"};
  const auto identity = identity_of(file);
  if (!identity) return system_error("can't create the file", path, "does its directory exist?");
  return std::unique_ptr<ByteSink>(std::make_unique<GuestFileSink>(move_up(file), *identity, path));
}

std::unique_ptr<ByteSink> memory_sink(std::vector<std::byte>& bytes) { return std::make_unique<MemorySink>(bytes); }

}  // namespace memreel
