// Serves metrics to scrapers over HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "formats/model/result.h"

namespace memreel::top {

struct Endpoint {
  std::string host;        // a numeric address, "127.0.0.1" or "::1"
  std::uint16_t port = 0;  // 0: chosen by the system

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Serves the current text to all requests for /metrics. Never blocks on a client: one thread serves all connections,
/// each has five seconds and 8 KiB for its request, and the 65th connection closes the oldest. A misbehaving client
/// affects nobody else.
class ScrapeServer {
 public:
  static constexpr std::size_t most_connections = 64;
  static constexpr std::size_t largest_request = 8 << 10;

  /// Listens. Errors: the address is in use, or not on this machine.
  static Result<ScrapeServer> open(const Endpoint& endpoint);
  ScrapeServer(ScrapeServer&& other) noexcept;
  ScrapeServer& operator=(ScrapeServer&&) = delete;
  ~ScrapeServer();

  /// Its address, with the port that the system chose: "http://127.0.0.1:9400/metrics"
  std::string address() const;

  using Text = std::shared_ptr<const std::string>;
  /// Serves until `end` (a file descriptor) becomes readable. Calls `text` for each response, on the calling thread.
  void run(int end, const std::function<Text()>& text);

 private:
  ScrapeServer(int file, Endpoint endpoint) : file_(file), endpoint_(std::move(endpoint)) {}

  int file_ = -1;
  Endpoint endpoint_;
};

}  // namespace memreel::top
