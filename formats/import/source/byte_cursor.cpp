#include "formats/import/source/byte_cursor.h"

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

}  // namespace memreel
