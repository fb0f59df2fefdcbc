// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/bytes.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>

#include "formats/model/files.h"

namespace memreel {
namespace {

constexpr std::uint64_t progress_interval = std::uint64_t{4} << 20U;

}  // namespace

bool ByteCursor::refill() {
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  before_ += at_;
  end_ -= at_;
  at_ = 0;
  if (failure_) return false;
  Result<std::size_t> count = file_.bytes->read(std::span(buffer_).subspan(end_));
  if (!count) {
    failure_ = std::move(count).error();
    return false;
  }
  end_ += *count;
  const std::uint64_t done = file_.bytes->stored_position();
  if (on_progress_ && done - reported_ >= progress_interval) {
    reported_ = done;
    on_progress_({.bytes_done = done, .bytes_total = file_.stored_size});
  }
  return *count > 0;
}

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
                 .remedy = remedy_of_opening(errno, "check the name and its permissions")};
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

namespace {

constexpr std::size_t piece_size = std::size_t{1} << 18U;
constexpr std::size_t piece_count = 4;

/// The result of one read. One that is not full is the last.
struct Piece {
  std::vector<std::byte> bytes = std::vector<std::byte>(piece_size);
  Result<std::size_t> count = std::size_t{0};
  std::uint64_t stored_position = 0;

  bool is_last() const { return !count || *count < piece_size; }
};

/// A ring of pieces: the thread fills those from `filled_` on, read() empties those before.
class ReadAhead final : public ByteStream {
 public:
  explicit ReadAhead(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    std::size_t taken = 0;
    while (taken < into.size()) {
      const Piece& piece = wait_for_piece();
      if (!piece.count) return piece.count.error();
      const std::size_t count = std::min(into.size() - taken, *piece.count - used_);
      std::memcpy(into.data() + taken, piece.bytes.data() + used_, count);
      taken += count;
      used_ += count;
      stored_position_ = piece.stored_position;
      if (used_ < *piece.count) break;
      if (piece.is_last()) break;
      used_ = 0;
      give_back_piece();
    }
    return taken;
  }
  std::uint64_t stored_position() const override { return stored_position_; }

 private:
  Piece& piece(std::size_t i) { return pieces_[i % piece_count]; }

  const Piece& wait_for_piece() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return emptied_ < filled_; });
    return piece(emptied_);
  }

  void give_back_piece() {
    {
      const std::lock_guard lock(mutex_);
      ++emptied_;
    }
    changed_.notify_all();
  }

  void fill(const std::stop_token& stop) {
    for (bool last = false; !last && !stop.stop_requested();) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return filled_ < emptied_ + piece_count; })) return;
      }
      Piece& next = piece(filled_);  // no other thread touches it, or `filled_`, until it is filled
      next.count = stream_->read(next.bytes);
      next.stored_position = stream_->stored_position();
      last = next.is_last();
      {
        const std::lock_guard lock(mutex_);
        ++filled_;
      }
      changed_.notify_all();
    }
  }

  std::unique_ptr<ByteStream> stream_;
  std::array<Piece, piece_count> pieces_;
  std::mutex mutex_;  // protects the two counts
  std::condition_variable_any changed_;
  std::size_t filled_ = 0, emptied_ = 0;
  std::size_t used_ = 0;  // bytes of the piece being emptied
  std::uint64_t stored_position_ = 0;
  std::jthread thread_{[this](const std::stop_token& stop) { fill(stop); }};  // last: destroyed before what it uses
};

}  // namespace

std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> stream) {
  return std::make_unique<ReadAhead>(std::move(stream));
}

namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 18U;
constexpr std::uint64_t decoder_memory = std::uint64_t{256} << 20U;

/// The buffered stored bytes, refilled from the file.
class StoredBytes {
 public:
  explicit StoredBytes(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)), buffer_(buffer_size) {}

  /// True if bytes are available; false at the end of the file.
  Result<bool> refill() {
    if (used_ < count_) return true;
    Result<std::size_t> count = stream_->read(buffer_);
    if (!count) return std::move(count).error();
    before_ += count_;
    used_ = 0;
    count_ = *count;
    return count_ > 0;
  }
  std::span<const std::byte> at_hand() const { return std::span(buffer_).subspan(used_, count_ - used_); }
  void skip(std::size_t count) { used_ += count; }
  std::uint64_t position() const { return before_ + used_; }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::uint64_t before_ = 0;  // bytes of the file that precede the buffer
};

/// The common part of the three decoders: errors with positions, and the loop that fills a request.
class Decompressor : public ByteStream {
 public:
  Decompressor(std::unique_ptr<ByteStream> stored, std::string name, std::string_view format, Bytes most)
      : stored_(std::move(stored)), name_(std::move(name)), format_(format), most_(most) {}

  Result<std::size_t> read(std::span<std::byte> into) final {
    std::size_t filled = 0;
    while (filled < into.size() && !ended_) {
      Result<bool> more = stored_.refill();
      if (!more) return std::move(more).error();
      Result<std::size_t> count = *more ? decode(into.subspan(filled)) : at_end(into.subspan(filled));
      if (!count) return count;
      filled += *count;
    }
    decoded_ += Bytes{filled};
    if (decoded_ > most_) return over_memory_limit(name_, "decompresses to more than", most_);
    return filled;
  }
  std::uint64_t stored_position() const final { return stored_.position(); }

 protected:
  /// Decodes from stored_ into `into`; both are not empty. Returns the number of bytes produced.
  virtual Result<std::size_t> decode(std::span<std::byte> into) = 0;
  /// The file has no more bytes: sets ended_ if that is a proper end, else fails.
  virtual Result<std::size_t> at_end(std::span<std::byte> into) = 0;

  Error damaged(const std::string& why) const {
    return {.what = std::string(format_) + " data is damaged: " + why,
            .where = name_,
            .offset = stored_.position(),
            .remedy = "copy the file again"};
  }
  Error cut_off() const {
    return {.what = std::string(format_) + " data ends early",
            .where = name_,
            .offset = stored_.position(),
            .remedy = "the file was cut off: copy it again"};
  }

  StoredBytes stored_;
  bool ended_ = false;

 private:
  std::string name_;
  std::string_view format_;
  Bytes most_, decoded_;
};

class XzStream final : public Decompressor {
 public:
  XzStream(std::unique_ptr<ByteStream> stored, std::string name, Bytes most)
      : Decompressor(std::move(stored), std::move(name), "xz", most),
        status_(lzma_stream_decoder(&state_, decoder_memory, LZMA_CONCATENATED)) {}
  ~XzStream() override { lzma_end(&state_); }

 private:
  Result<std::size_t> decode(std::span<std::byte> into) override { return step(into, LZMA_RUN); }
  Result<std::size_t> at_end(std::span<std::byte> into) override { return step(into, LZMA_FINISH); }

  Result<std::size_t> step(std::span<std::byte> into, lzma_action action) {
    const std::span<const std::byte> from = stored_.at_hand();
    state_.next_in = reinterpret_cast<const std::uint8_t*>(from.data());
    state_.avail_in = from.size();
    state_.next_out = reinterpret_cast<std::uint8_t*>(into.data());
    state_.avail_out = into.size();
    if (status_ == LZMA_OK) status_ = lzma_code(&state_, action);
    stored_.skip(from.size() - state_.avail_in);
    switch (status_) {
      case LZMA_OK:
        break;
      case LZMA_STREAM_END:
        ended_ = true;
        break;
      case LZMA_BUF_ERROR:
        return cut_off();
      case LZMA_MEMLIMIT_ERROR:
        return damaged("decoding needs more than 256 MiB");
      default:
        return damaged("liblzma error " + std::to_string(status_));
    }
    return into.size() - state_.avail_out;
  }

  lzma_stream state_ = LZMA_STREAM_INIT;
  lzma_ret status_;
};

class GzipStream final : public Decompressor {
 public:
  GzipStream(std::unique_ptr<ByteStream> stored, std::string name, Bytes most)
      : Decompressor(std::move(stored), std::move(name), "gzip", most), status_(inflateInit2(&state_, gzip_only)) {}
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  Result<std::size_t> decode(std::span<std::byte> into) override {
    const std::span<const std::byte> from = stored_.at_hand();
    if (between_members_) {
      // gzip pads members to tape blocks with zeros.
      if (from[0] == std::byte{0}) {
        stored_.skip(1);
        return std::size_t{0};
      }
      status_ = inflateReset(&state_);
      between_members_ = false;
    }
    const std::size_t wanted = std::min(into.size(), buffer_size);
    // zlib's interface lacks const; it does not write there.
    state_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data()));  // NOLINT
    state_.avail_in = static_cast<uInt>(from.size());
    state_.next_out = reinterpret_cast<Bytef*>(into.data());
    state_.avail_out = static_cast<uInt>(wanted);
    if (status_ == Z_OK) status_ = inflate(&state_, Z_NO_FLUSH);
    stored_.skip(from.size() - state_.avail_in);
    if (status_ == Z_STREAM_END)
      between_members_ = true;
    else if (status_ != Z_OK)
      return damaged(state_.msg != nullptr ? state_.msg : "zlib error " + std::to_string(status_));
    return wanted - state_.avail_out;
  }
  Result<std::size_t> at_end(std::span<std::byte>) override {
    if (!between_members_) return cut_off();
    ended_ = true;
    return std::size_t{0};
  }

  static constexpr int gzip_only = MAX_WBITS + 16;  // 16: a gzip header is expected, not a bare zlib one
  z_stream state_{};
  int status_;
  bool between_members_ = false;
};

class ZstdStream final : public Decompressor {
 public:
  ZstdStream(std::unique_ptr<ByteStream> stored, std::string name, Bytes most)
      : Decompressor(std::move(stored), std::move(name), "zstd", most), state_(ZSTD_createDCtx()) {}

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  Result<std::size_t> decode(std::span<std::byte> into) override { return step(into); }
  Result<std::size_t> at_end(std::span<std::byte> into) override {
    Result<std::size_t> count = step(into);  // what the decoder still holds
    if (!count || *count > 0) return count;
    if (!between_frames_) return cut_off();
    ended_ = true;
    return count;
  }

  Result<std::size_t> step(std::span<std::byte> into) {
    ZSTD_inBuffer in{stored_.at_hand().data(), stored_.at_hand().size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    if (in.size == 0 && between_frames_) return std::size_t{0};
    const std::size_t status = ZSTD_decompressStream(state_.get(), &out, &in);
    stored_.skip(in.pos);
    if (ZSTD_isError(status) != 0) return damaged(ZSTD_getErrorName(status));
    between_frames_ = status == 0;
    return out.pos;
  }

  std::unique_ptr<ZSTD_DCtx, Free> state_;
  bool between_frames_ = false;
};

template <std::size_t N>
bool begins_with(std::span<const std::byte> bytes, const std::array<unsigned, N>& magic) {
  return bytes.size() >= N && std::equal(magic.begin(), magic.end(), bytes.begin(),
                                         [](unsigned m, std::byte b) { return m == std::to_integer<unsigned>(b); });
}

}  // namespace

Compression compression_of(std::span<const std::byte> beginning) {
  if (begins_with<6>(beginning, {0xFD, '7', 'z', 'X', 'Z', 0x00})) return Compression::xz;
  if (begins_with<3>(beginning, {0x1F, 0x8B, 0x08})) return Compression::gzip;
  if (begins_with<4>(beginning, {0x28, 0xB5, 0x2F, 0xFD})) return Compression::zstd;
  return Compression::none;
}

std::unique_ptr<ByteStream> decompress(Compression compression, std::unique_ptr<ByteStream> stored, std::string name,
                                       Bytes most) {
  if (compression == Compression::xz) return std::make_unique<XzStream>(std::move(stored), std::move(name), most);
  if (compression == Compression::gzip) return std::make_unique<GzipStream>(std::move(stored), std::move(name), most);
  return std::make_unique<ZstdStream>(std::move(stored), std::move(name), most);
}

}  // namespace memreel
