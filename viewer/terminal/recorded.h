// SPDX-License-Identifier: Apache-2.0
// The recorded processes of this machine, as `memreel top` knows them: its document (docs/schema/top.json), and the
// table made of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "formats/model/result.h"
#include "formats/model/units.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/screen.h"

namespace memreel::viewer::terminal {

struct RecordedHeap {
  std::string name;
  int device = 0;
  bool is_framework = false;
  Bytes live, reserved, peak;
  std::optional<double> growth;  // of live bytes, per minute
};

struct RecordedDevice {
  int device = 0;
  Bytes used, free;
};

struct RecordedProcess {
  int process = 0;
  std::string name, rank, problem;  // empty: none
  bool is_recording = false;
  std::filesystem::path trace;  // empty: none
  std::vector<RecordedHeap> heaps;
  std::vector<RecordedDevice> devices;
  std::uint64_t lost = 0;          // events
  std::string categories;          // "activation 1.20 GiB, parameter 800.00 MiB"; empty: not asked for
  std::vector<std::string> leaks;  // a line for each
};

using Recorded = std::vector<RecordedProcess>;

/// None if it is not such a document.
std::optional<Recorded> parse_recorded(std::string_view document);

enum class RecordedOrder : std::uint8_t { live, reserved, growth, process };
inline constexpr std::size_t recorded_orders = 4;
/// "live", "reserved", "growth", "pid".
std::optional<RecordedOrder> recorded_order(std::string_view name);
/// The letter that chooses it.
std::optional<RecordedOrder> recorded_order_of(char32_t key);

/// "GPU 0: 61.20 GiB of 79.25 GiB used", all programs taken together, for each device.
std::vector<std::string> device_lines(const Recorded& recorded);

/// A row for each heap, those of a process together, then what is found about it. Rows' `item`: the process.
List recorded_list(const Recorded& recorded, RecordedOrder order, int width);
/// The list's column that it is sorted by.
std::size_t column_of(RecordedOrder order, int width);

// The program memreel-top, which asks the recorded processes of this machine again and again, beside this one.

class Feed {
 public:
  /// Starts it with these arguments, and waits for its first answer. `wake` is called on another thread at each. Null:
  /// it ended without one, and has said why. Errors: it can't be started.
  static Result<std::unique_ptr<Feed>> open(std::vector<std::string> arguments, std::function<void()> wake);
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  /// Ends it.
  ~Feed();

  /// Null: it has ended.
  std::shared_ptr<const Recorded> latest() const;

 private:
  Feed(pid_t process, int input, int output, std::function<void()> wake);
  /// A line; false at the end.
  bool read_line(const std::stop_token& stop, std::string& line);
  void read(const std::stop_token& stop);

  pid_t process_;
  int input_, output_;
  std::function<void()> wake_;
  std::string unread_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Recorded> latest_;
  std::jthread reader_;  // last member: it uses the others
};

}  // namespace memreel::viewer::terminal
