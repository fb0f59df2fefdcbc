#include "formats/import/source/byte_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "formats/import/source/decompress.h"
#include "formats/model/memory_limit.h"

namespace memreel {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }  // read only: nothing can be lost
};
using File = std::unique_ptr<std::FILE, CloseFile>;

class FileStream final : public ByteStream {
 public:
  FileStream(File file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t count = std::fread(into.data(), 1, into.size(), file_.get());
    if (count < into.size() && std::ferror(file_.get()) != 0)
      return Error{.what = std::string{"can't be read: "} + std::generic_category().message(errno),
                   .where = name_,
                   .offset = position_};
    position_ += count;
    return count;
  }
  std::uint64_t stored_position() const override { return position_; }

 private:
  File file_;
  std::string name_;
  std::uint64_t position_ = 0;
};

}  // namespace

Result<OpenedFile> open_bytes(const std::filesystem::path& file, Bytes memory_limit) {
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure))
    return Error{.what = "is a directory", .where = file.string(), .remedy = "name a file"};
  // Detected by its first bytes and then read again, partly by offset. Opening a pipe could also block forever.
  if (const auto status = std::filesystem::status(file, failure);
      std::filesystem::is_fifo(status) || std::filesystem::is_socket(status))
    return Error{
        .what = "is a pipe, which can be read only once", .where = file.string(), .remedy = "save it to a file"};
  File handle(std::fopen(file.c_str(), "rb"));
  if (!handle)
    return Error{.what = std::string{"can't be opened: "} + std::generic_category().message(errno),
                 .where = file.string(),
                 .remedy = "check the name and its permissions"};
  // Callers read large pieces; another buffer in between would only copy.
  std::setvbuf(handle.get(), nullptr, _IONBF, 0);
  const std::uintmax_t size = std::filesystem::file_size(file, failure);

  std::array<std::byte, 8> beginning{};
  const std::size_t count = std::fread(beginning.data(), 1, beginning.size(), handle.get());
  std::rewind(handle.get());
  const Compression compression = compression_of(std::span(beginning).first(count));

  OpenedFile opened{.bytes = std::make_unique<FileStream>(std::move(handle), file.string()),
                    .stored_size = failure ? 0 : size,
                    .where = file.string(),
                    .memory_limit = memory_limit,
                    .file = file};
  if (memory_limit == 0_B) opened.memory_limit = default_memory_limit({opened.stored_size}, 64, 256_MiB);
  if (compression != Compression::none) {
    opened.bytes = decompress(compression, std::move(opened.bytes), file.string(), opened.memory_limit);
    opened.compressed = true;
    opened.file.clear();
    opened.where += " (uncompressed)";
  }
  return opened;
}

}  // namespace memreel
