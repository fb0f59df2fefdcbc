// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/trace_output.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/writer/interner.h"
#include "formats/writer/packet_encoder.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

template <class Id, class Row, class Value>
Id id_of(Interner& interner, std::vector<Row> Tables::*rows, const Value& value) {
  return Id{interner.intern(interner.tables().*rows, value)};
}

}  // namespace

TraceOutput::TraceOutput() : interner_(std::make_unique<Interner>()) {}
TraceOutput::TraceOutput(TraceOutput&&) noexcept = default;
TraceOutput& TraceOutput::operator=(TraceOutput&&) noexcept = default;
TraceOutput::~TraceOutput() = default;

const Tables& TraceOutput::tables() const { return interner_->tables(); }

StringId TraceOutput::intern(std::string_view text) {
  return id_of<StringId>(*interner_, &Tables::strings, text.substr(0, max_text_size));
}
ModuleId TraceOutput::intern(const Module& module) { return id_of<ModuleId>(*interner_, &Tables::modules, module); }
FrameId TraceOutput::intern(const Frame& frame) { return id_of<FrameId>(*interner_, &Tables::frames, frame); }
StackId TraceOutput::intern(const Stack& stack) { return id_of<StackId>(*interner_, &Tables::stacks, stack); }
HeapId TraceOutput::intern(const Heap& heap) { return id_of<HeapId>(*interner_, &Tables::heaps, heap); }
PoolId TraceOutput::intern(const Pool& pool) { return id_of<PoolId>(*interner_, &Tables::pools, pool); }
StreamId TraceOutput::intern(const Stream& stream) { return id_of<StreamId>(*interner_, &Tables::streams, stream); }
ThreadId TraceOutput::intern(const Thread& thread) { return id_of<ThreadId>(*interner_, &Tables::threads, thread); }
OriginId TraceOutput::intern(const Origin& origin) { return id_of<OriginId>(*interner_, &Tables::origins, origin); }
MarkId TraceOutput::intern(const Mark& mark) { return id_of<MarkId>(*interner_, &Tables::marks, mark); }
SettingsId TraceOutput::intern(const Settings& settings) {
  return id_of<SettingsId>(*interner_, &Tables::settings, settings);
}

namespace {

Error system_error(std::string what, const std::filesystem::path& path, std::string remedy = {}) {
  return {.what = std::move(what) + ": " + std::generic_category().message(errno),
          .where = path.string(),
          .remedy = std::move(remedy)};
}

Error write_error(const std::filesystem::path& path) {
  switch (errno) {
    case ENOSPC:
    case EDQUOT:
      return system_error("can't write", path, "free some space, or write to another disk");
    case EFBIG:
      return system_error("can't write", path, "raise the limit on the size of files (ulimit -f)");
    default:
      return system_error("can't write", path);
  }
}

Error creation_error(const std::filesystem::path& path) {
  return system_error("can't create the file", path,
                      remedy_of_opening(errno, errno == ENOENT ? "create its directory first" : ""));
}

/// An open file, closed by the destructor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// True if the system wrote everything.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

Result<void> write_all(int file, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return write_error(path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

class FileSink : public ByteSink {
 public:
  FileSink(Descriptor file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  Result<void> write(std::span<const std::byte> bytes) override { return write_all(file_.number(), bytes, path_); }

  Result<void> close() override {
    if (!file_.close()) return write_error(path_);
    return {};
  }

 protected:
  int file() const { return file_.number(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  Descriptor file_;
  std::filesystem::path path_;
};

/// Unpredictable, so that nobody can create the name in advance.
std::string random_word() {
  std::array<char, 8> bytes{};
  while (::getrandom(bytes.data(), bytes.size(), 0) < 0 && errno == EINTR) continue;
  return hex_of(std::string_view(bytes.data(), bytes.size()));
}

/// Calls `create`, which fails with EEXIST if there is such a file, with names next to `path` until it does not.
/// Returns the name; empty if it failed.
template <class Create>
std::filesystem::path temporary_name(const std::filesystem::path& path, const Create& create) {
  constexpr int most_attempts = 16;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    std::filesystem::path name = path;
    name += "." + random_word() + ".part";
    if (create(name)) return name;
    if (errno != EEXIST) break;
  }
  return {};
}

std::string descriptor_link(int file) { return "/proc/self/fd/" + std::to_string(file); }

/// Names a file that was opened without a name.
bool link_file(int file, const std::filesystem::path& name) {
  return ::linkat(AT_FDCWD, descriptor_link(file).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// Of closing a file, without closing it.
bool can_close(int file) {
  const int copy = ::dup(file);
  return copy < 0 || ::close(copy) == 0;
}

class AtomicFileSink final : public FileSink {
 public:
  /// `temporary`: the file's name; empty if it has none.
  AtomicFileSink(Descriptor file, std::filesystem::path temporary, std::filesystem::path path)
      : FileSink(std::move(file), std::move(path)), temporary_(std::move(temporary)) {}
  AtomicFileSink(const AtomicFileSink&) = delete;
  AtomicFileSink& operator=(const AtomicFileSink&) = delete;
  ~AtomicFileSink() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<void> close() override {
    if (temporary_.empty()) {
      if (!can_close(file())) return write_error(path());
      if (link_file(file(), path())) return FileSink::close();
      if (errno != EEXIST) return creation_error(path());
      temporary_ = temporary_name(path(), [&](const auto& name) { return link_file(file(), name); });
      if (temporary_.empty()) return creation_error(path());
    }
    if (auto closed = FileSink::close(); !closed) return closed;
    if (::rename(temporary_.c_str(), path().c_str()) != 0) return creation_error(path());
    temporary_.clear();
    return {};
  }

 private:
  std::filesystem::path temporary_;
};

/// A file in a program that may close it and open another under the same descriptor.
class GuestFileSink final : public LiveFile {
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
      return Error{.what = "the program closed the trace, and the file is gone", .where = path_.string()};
    auto written = write_all(file_, bytes, path_);
    lacks_space_ = !written && (errno == ENOSPC || errno == EDQUOT);
    if (written)
      size_ += bytes.size();
    else if (::ftruncate(file_, static_cast<off_t>(size_)) != 0)
      lacks_space_ = false;  // readers find a part of a packet at its end: nothing can be added
    return written;
  }

  std::uint64_t size() const override { return size_; }
  bool lacks_space() const override { return lacks_space_; }

  Result<void> rename(const std::filesystem::path& path) override {
    if (::rename(path_.c_str(), path.c_str()) != 0) return system_error("can't rename the file", path_);
    path_ = path;
    return {};
  }

  Result<int> descriptor() override {
    if (is_there() || open_again()) return file_;
    return Error{.what = "the program closed the trace, and the file is gone", .where = path_.string()};
  }

  Result<void> close() override {
    const int file = std::exchange(file_, -1);
    if (identity_of(file) == identity_ && ::close(file) != 0) return write_error(path_);
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
  std::uint64_t size_ = 0;
  bool lacks_space_ = false;
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

/// Whether a path names an open file of a process, like /dev/stdout once resolved, or /dev/fd/1.
bool is_descriptor(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(path.parent_path(), ignored);
  return folder.string().starts_with("/proc/") && folder.filename() == "fd";
}

/// Another descriptor of what `path` names if that is an open file of this process, to write on from where everybody
/// with this file is; opened again, it would have a position of its own. None if it is another process's, or only read.
Descriptor copy_of_own(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::optional<std::uint64_t> number = parse_integer(path.filename().string());
  if (!number || !std::filesystem::equivalent(path.parent_path(), "/proc/self/fd", unknown)) return Descriptor(-1);
  const int own = static_cast<int>(*number);
  const int flags = ::fcntl(own, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return Descriptor(-1);
  return Descriptor(::fcntl(own, F_DUPFD_CLOEXEC, 0));
}

/// Whether what `file` says is in a directory where anybody may create files, and was put there by another user than us
/// or the directory's owner: a trap. The same as the kernel's fs.protected_symlinks, protected_regular and
/// protected_fifos (Documentation/admin-guide/sysctl/fs.rst), which opening through resolved links and renaming evade.
bool is_planted(const std::filesystem::path& path, const struct stat& file) {
  struct stat directory {};
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::stat(parent.c_str(), &directory) != 0) return false;
  const bool shared = (directory.st_mode & S_ISVTX) != 0 && (directory.st_mode & (S_IWOTH | S_IWGRP)) != 0;
  return shared && file.st_uid != ::geteuid() && file.st_uid != directory.st_uid;
}

Error planted(const std::filesystem::path& path) {
  return {.what = "was put into a shared directory by another user",
          .where = path.string(),
          .remedy = "remove it, or write elsewhere"};
}

/// Resolves symbolic links in a path, whether or not the last one leads to a file. Stops at open files of a process,
/// which only look like links.
Result<std::filesystem::path> followed(std::filesystem::path path) {
  constexpr int most_links = 40;  // as the kernel
  std::error_code problem;
  for (int i = 0; i < most_links; ++i) {
    if (is_descriptor(path)) return path;
    const std::filesystem::path target = std::filesystem::read_symlink(path, problem);
    if (problem) return path;
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && is_planted(path, link)) return planted(path);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return Error{.what = "is a loop of symbolic links", .where = path.string(), .remedy = "name another file"};
}

/// Best effort: only root may change a file's owner, and losing mode bits is not an output failure.
void keep_owner_and_mode(int file, const struct stat& existing) {
  struct stat now {};
  if (::fstat(file, &now) != 0) return;
  const bool other_owner = now.st_uid != existing.st_uid || now.st_gid != existing.st_gid;
  const bool same_owner = !other_owner || ::fchown(file, existing.st_uid, existing.st_gid) == 0;
  static_cast<void>(::fchmod(file, existing.st_mode & (same_owner ? 07777U : 0777U)));
}

/// Without a name, of which nothing is left if the process is killed. Not if the file system can't have such files, or
/// if there is no /proc to name it with later.
Descriptor nameless_file(const std::filesystem::path& path, unsigned mode) {
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  Descriptor file(::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode));
  return file && ::access(descriptor_link(file.number()).c_str(), F_OK) == 0 ? std::move(file) : Descriptor(-1);
}

Descriptor new_file(const std::filesystem::path& name, unsigned mode) {
  return Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
}

}  // namespace

Result<std::unique_ptr<ByteSink>> atomic_file_sink(const std::filesystem::path& path, unsigned mode) {
  const Result<std::filesystem::path> target = followed(path);
  if (!target) return target.error();
  struct stat existing {};
  const bool exists = ::stat(target->c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode))
    return Error{.what = "is a directory", .where = path.string(), .remedy = "name a file"};
  if (exists && (S_ISREG(existing.st_mode) || S_ISFIFO(existing.st_mode)) && !is_descriptor(*target) &&
      is_planted(*target, existing))
    return planted(path);
  if (exists && (!S_ISREG(existing.st_mode) || is_descriptor(*target))) {
    // A pipe, a device or /dev/stdout is written to, never replaced.
    Descriptor file = is_descriptor(*target) ? copy_of_own(*target) : Descriptor(-1);
    if (!file) file = Descriptor(::open(target->c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
    if (!file) return system_error("can't open for writing", path);
    return std::unique_ptr<ByteSink>(std::make_unique<FileSink>(std::move(file), path));
  }
  // A rename would replace a file that its owner made read-only.
  if (exists && ::access(target->c_str(), W_OK) != 0) return system_error("can't open for writing", path);
  if (exists) mode = private_mode;
  Descriptor file = nameless_file(*target, mode);
  std::filesystem::path temporary;
  if (!file) {
    temporary = temporary_name(*target, [&](const auto& name) {
      file = new_file(name, mode);
      return static_cast<bool>(file);
    });
  }
  if (!file) return creation_error(path);
  if (exists) keep_owner_and_mode(file.number(), existing);
  return std::unique_ptr<ByteSink>(std::make_unique<AtomicFileSink>(std::move(file), std::move(temporary), *target));
}

Result<void> write_whole(const std::filesystem::path& path, std::string_view bytes, unsigned mode) {
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(path, mode);
  if (!sink) return std::move(sink).error();
  if (Result<void> written = (*sink)->write(std::as_bytes(std::span(bytes))); !written) return written;
  return (*sink)->close();
}

Result<std::unique_ptr<LiveFile>> live_file_sink(const std::filesystem::path& path, unsigned mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  std::error_code unknown;
  if (file < 0 && errno == EEXIST && std::filesystem::is_other(path, unknown))
    return Error{.what = "is not a regular file, as a trace must be", .where = path.string(), .remedy = "name a file"};
  if (file < 0 && errno == EEXIST)
    return Error{.what = "exists already", .where = path.string(), .remedy = "remove it or choose another name"};
  if (file < 0) return creation_error(path);
  const auto identity = identity_of(file);
  if (!identity) {
    const Error error = creation_error(path);
    ::close(file);
    return error;
  }
  [[maybe_unused]] const int allowed = ::fchmod(file, mode);  // not every file system supports modes
  return std::unique_ptr<LiveFile>(std::make_unique<GuestFileSink>(move_up(file), *identity, path));
}

std::unique_ptr<ByteSink> memory_sink(std::vector<std::byte>& bytes) { return std::make_unique<MemorySink>(bytes); }

}  // namespace memreel
