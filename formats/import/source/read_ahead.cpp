#include "formats/import/source/read_ahead.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace memreel {
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

}  // namespace memreel
