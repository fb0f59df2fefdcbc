// SPDX-License-Identifier: Apache-2.0
// Serves metrics to scrapers over HTTP.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <variant>

#include "collector/top/sampled_processes.h"
#include "formats/model/result.h"

namespace memreel::top {

// What recorded processes hold, in OpenMetrics 1.0 format, which Prometheus reads.

/// The HTTP content type: https://prometheus.io/docs/specs/om/open_metrics_spec/
inline constexpr const char* openmetrics_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family after the other, each with its type and help, then "# EOF". Device metrics have the names of NVIDIA's
/// dcgm-exporter and, like there, are in MiB; all others begin with memreel_. docs/production.md lists them.
std::string openmetrics(std::span<const WatchedProcess> processes);

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
  /// The same, but nothing if the port is in use.
  static Result<std::optional<ScrapeServer>> open_if_free(const Endpoint& endpoint);
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

// Repeatedly publishes metrics for Prometheus until told to end.

/// Where metrics go: an HTTP address, or a file.
using Target = std::variant<Endpoint, std::filesystem::path>;

/// ":PORT" (on the loopback), "HOST:PORT", "[ADDRESS]:PORT", or else a file. %h, %p and %r in a file name are replaced
/// as in a trace name (options/options.h). Errors: an invalid port, or a name that is only a number.
Result<Target> parse_target(const std::string& text);

struct Export {
  Target target;
  std::chrono::milliseconds interval{1000};          // between samples
  std::function<std::vector<pid_t>()> processes;     // called before each sample, on its own thread
  int end = -1;                                      // a file descriptor: ends when it becomes readable
  std::function<void(const std::string&)> announce;  // called once, with the address, when metrics are available
  /// If set, a port in use is no error: called once with what to say of it; then the port is tried once a second.
  std::function<void(const Error&)> postpone;
};

/// Samples and exports until told to end. A file is written whole and renamed each time; the last version says that
/// nothing is being recorded, as its readers have no other way to know. Errors: it can't begin.
Result<void> export_metrics(const Export& what);

// Which process listens on a port of this machine.

/// "memreel-top (process 4711)"; empty if it can't be seen: it is another user's, or in another container.
std::string port_owner(std::uint16_t port);

/// The socket (inode) that listens on `port`, of a table such as /proc/net/tcp; 0 if none does.
std::uint64_t listening_socket(std::string_view table, std::uint16_t port);

}  // namespace memreel::top
