// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "formats/model/files.h"
#include "formats/model/frame_kind.h"
#include "formats/model/value_check.h"
#include "formats/reader/trace_stream.h"

namespace memreel {

class TraceReader::Impl {
 public:
  explicit Impl(TraceStream opened) : stream(std::move(opened)) {}
  TraceStream stream;
};

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit) {
  auto stream = TraceStream::open(std::move(file), name, memory_limit);
  if (!stream) return std::move(stream).error();
  return TraceReader(std::make_unique<Impl>(*std::move(stream)));
}

Result<bool> TraceReader::next(EventBatch& batch) {
  batch.events.clear();
  auto summary = impl_->stream.next(batch.events);
  if (!summary) return std::move(summary).error();
  if (!*summary) return false;
  batch.first_event = (*summary)->first_event;
  batch.first_allocation = (*summary)->first_allocation;
  batch.state_after = std::move((*summary)->state_after);
  return true;
}

const Header& TraceReader::header() const { return impl_->stream.header(); }
const Tables& TraceReader::tables() const { return impl_->stream.tables(); }
const Losses& TraceReader::losses() const { return impl_->stream.losses(); }
const FoldedHistory& TraceReader::folded() const { return impl_->stream.folded(); }
const std::vector<InitialHeap>& TraceReader::initial_heaps() const { return impl_->stream.initial_heaps(); }
const PythonHolders& TraceReader::python_holders() const { return impl_->stream.python_holders(); }
const ReadReport& TraceReader::report() const { return impl_->stream.report(); }
Bytes TraceReader::memory() const { return impl_->stream.memory(); }
Bytes TraceReader::memory_limit() const { return impl_->stream.memory_limit(); }

namespace {

/// All but tables and events. `From`: TraceStream or TraceReader.
template <class From>
void describe(Trace& trace, const From& from, Bytes file_size) {
  trace.header = from.header();
  trace.losses = from.losses();
  trace.folded = from.folded();
  trace.initial_heaps = from.initial_heaps();
  trace.python_holders = from.python_holders();
  trace.read = from.report();
  trace.file_size = file_size;
}

}  // namespace

Trace trace_so_far(const TraceReader& reader, Events events, Bytes file_size) {
  Trace trace{.events = std::move(events)};
  trace.events.pack();
  describe(trace, reader, file_size);
  trace.tables = reader.tables();
  shorten_paths(trace.tables);
  return trace;
}

Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit) {
  const std::uint64_t size = file->size();
  auto stream = TraceStream::open(std::move(file), name, memory_limit);
  if (!stream) return std::move(stream).error();
  Trace trace;
  EventColumns events;
  for (;;) {
    events.clear();
    auto block = stream->next(events);
    if (!block) return std::move(block).error();
    if (!*block) break;
    trace.events.append(events);
    if (auto fits = check_memory(trace.events, stream->memory(), stream->memory_limit(), name); !fits)
      return std::move(fits).error();
  }
  trace.events.pack();
  describe(trace, *stream, {size});
  trace.tables = std::move(*stream).take_tables();
  shorten_paths(trace.tables);
  return trace;
}

Result<Trace> load_checked(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit) {
  Result<Trace> trace = load(std::move(file), name, memory_limit);
  if (!trace) return trace;
  if (auto checked = ValueCheck(name).check(trace->events); !checked) return std::move(checked).error();
  return trace;
}

Result<Trace> load(std::shared_ptr<ByteFile> file, const std::string& name) { return load(std::move(file), name, {}); }

Result<Trace> load(const std::filesystem::path& path) {
  auto file = open_file(path);
  if (!file) return std::move(file).error();
  return load(*std::move(file), path.string());
}

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
    return Error{.what = "can't be opened: " + std::generic_category().message(errno),
                 .where = path.string(),
                 .remedy = remedy_of_opening(errno, {})};
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
