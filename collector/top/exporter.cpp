#include "collector/top/exporter.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include "collector/options/options.h"
#include "collector/top/openmetrics.h"
#include "collector/top/watch.h"
#include "formats/model/printable.h"
#include "formats/writer/trace_writer.h"

namespace memreel::top {
namespace {

std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

Result<void> write_whole(const std::filesystem::path& file, const std::string& text) {
  constexpr unsigned readable_by_all = 0644;  // node_exporter runs as another user
  auto sink = atomic_file_sink(file, readable_by_all);
  if (!sink) return sink.error();
  if (auto written = (*sink)->write(std::as_bytes(std::span(text))); !written) return written;
  return (*sink)->close();
}

/// The latest text, for any reader.
class Published {
 public:
  void set(std::string text) {
    auto shared = std::make_shared<const std::string>(std::move(text));
    const std::lock_guard alone(mutex_);
    text_ = std::move(shared);
  }
  ScrapeServer::Text get() const {
    const std::lock_guard alone(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  ScrapeServer::Text text_ = std::make_shared<const std::string>(openmetrics({}));
};

/// Takes samples and passes on each text, until stopped. The first one at once.
void sample(const std::stop_token& stop, const Export& what, const std::function<void(std::string)>& take) {
  Watch watch(Watch::Analyse::yes);
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    watch.refresh(what.processes(), Watch::Clock::now());
    take(openmetrics(watch.processes()));
    woken.wait_for(lock, stop, what.interval, [] { return false; });
  }
}

Result<void> serve(const Export& what, const Endpoint& endpoint) {
  auto server = ScrapeServer::open(endpoint);
  if (!server) return server.error();
  Published published;
  const std::jthread sampler([&](const std::stop_token& stop) {
    sample(stop, what, [&](std::string text) { published.set(std::move(text)); });
  });
  what.announce(server->address());
  server->run(what.end, [&] { return published.get(); });
  return {};
}

Result<void> write_again_and_again(const Export& what, const std::filesystem::path& file) {
  if (auto possible = write_whole(file, openmetrics({})); !possible) return possible;
  bool complained = false;
  {
    const std::jthread sampler([&](const std::stop_token& stop) {
      sample(stop, what, [&](const std::string& text) {
        const auto written = write_whole(file, text);
        // The disk may have room again later.
        if (!written && !std::exchange(complained, true))
          std::fprintf(stderr, "memreel: %s\n", printable(written.error().message()).c_str());
      });
    });
    what.announce(file.string());
    pollfd waiting{.fd = what.end, .events = POLLIN, .revents = 0};
    while (::poll(&waiting, 1, -1) <= 0) continue;
  }
  return write_whole(file, openmetrics({}));
}

}  // namespace

Result<Target> parse_target(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (text.empty() || (colon == std::string::npos && port_in(text)))
    return Error{.what = "neither a port nor a file",
                 .where = "--openmetrics '" + text + "'",
                 .remedy = "use :9400, HOST:PORT or ./FILE"};
  if (colon == std::string::npos || text.find('/') != std::string::npos) {
    std::error_code ignored;
    return Target(std::filesystem::absolute(agent::trace_name(text, agent::process_names()), ignored));
  }
  const auto port = port_in(std::string_view(text).substr(colon + 1));
  if (!port)
    return Error{.what = "not a port from 0 to 65535",
                 .where = "--openmetrics '" + text + "'",
                 .remedy = "use :9400, or ./" + text + " for a file with that name"};
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  return Target(Endpoint{.host = std::move(host), .port = *port});
}

Result<void> export_metrics(const Export& what) {
  if (const auto* const endpoint = std::get_if<Endpoint>(&what.target)) return serve(what, *endpoint);
  return write_again_and_again(what, *std::get_if<std::filesystem::path>(&what.target));
}

}  // namespace memreel::top
