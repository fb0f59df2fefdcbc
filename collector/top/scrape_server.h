// Answers whoever scrapes metrics, over HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "formats/model/result.h"

namespace memreel::top {

struct Endpoint {
  std::string host;        // a numeric address, "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0: the system chooses one

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Gives the same text to everybody who asks for /metrics, until the next text. It waits for nobody: connections are
/// answered side by side by one thread, each has five seconds and 8 KiB for its request, and when there are 64 the
/// oldest makes room for the next. What others do to it costs nobody but them.
class ScrapeServer {
 public:
  static constexpr std::size_t most_connections = 64;
  static constexpr std::size_t largest_request = 8 << 10;

  /// Listens. Errors: the address is in use, or not this machine's.
  static Result<ScrapeServer> open(const Endpoint& endpoint);
  ScrapeServer(ScrapeServer&& other) noexcept;
  ScrapeServer& operator=(ScrapeServer&&) = delete;
  ~ScrapeServer();

  /// Where it listens: with the port that the system chose. "http://127.0.0.1:9400/metrics"
  std::string address() const;

  using Text = std::shared_ptr<const std::string>;
  /// Answers, until `end` (a file) can be read. `text` is asked for each answer, by the calling thread.
  void run(int end, const std::function<Text()>& text);

 private:
  ScrapeServer(int file, Endpoint endpoint) : file_(file), endpoint_(std::move(endpoint)) {}

  int file_ = -1;
  Endpoint endpoint_;
};

}  // namespace memreel::top
