// SPDX-License-Identifier: Apache-2.0
#include "collector/top/scrape_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <system_error>
#include <thread>

#include "collector/attach/process.h"
#include "collector/record/collector_command.h"
#include "formats/model/files.h"
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

/// "[::1]:9400"
std::string text_of(const Endpoint& endpoint) {
  const bool six = endpoint.host.find(':') != std::string::npos;
  return (six ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

constexpr unsigned readable_by_all = 0644;  // node_exporter runs as another user

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

Error in_use(const Endpoint& endpoint) {
  const std::string owner = port_owner(endpoint.port);
  return {.what = "the port is in use" + (owner.empty() ? "" : ", by " + owner),
          .where = text_of(endpoint),
          .remedy = "choose another, or :0 for any free one"};
}

/// Listens as soon as the port is free. Nothing if it is to end before.
Result<std::optional<ScrapeServer>> wait_for_port(const Export& what, const Endpoint& endpoint) {
  pollfd waiting{.fd = what.end, .events = POLLIN, .revents = 0};
  for (bool first = true;; first = false) {
    auto server = ScrapeServer::open_if_free(endpoint);
    if (!server || *server || !what.postpone) return server;
    if (first) what.postpone(in_use(endpoint));
    if (::poll(&waiting, 1, 1000) > 0) return server;
  }
}

Result<void> serve(const Export& what, const Endpoint& endpoint) {
  Result<std::optional<ScrapeServer>> opened = wait_for_port(what, endpoint);
  if (!opened) return opened.error();
  std::optional<ScrapeServer>& server = *opened;
  if (!server) return what.postpone ? Result<void>() : in_use(endpoint);
  Published published;
  const std::jthread sampler([&](const std::stop_token& stop) {
    sample(stop, what, [&](std::string text) { published.set(std::move(text)); });
  });
  what.announce(server->address());
  server->run(what.end, [&] { return published.get(); });
  return {};
}

Result<void> write_again_and_again(const Export& what, const std::filesystem::path& file) {
  if (auto possible = write_whole(file, openmetrics({}), readable_by_all); !possible) return possible;
  bool complained = false;
  {
    const std::jthread sampler([&](const std::stop_token& stop) {
      sample(stop, what, [&](const std::string& text) {
        const auto written = write_whole(file, text, readable_by_all);
        // The disk may have room again later.
        if (!written && !std::exchange(complained, true))
          std::fprintf(stderr, "memreel: %s\n", printable(written.error().message()).c_str());
      });
    });
    what.announce(file.string());
    pollfd waiting{.fd = what.end, .events = POLLIN, .revents = 0};
    while (::poll(&waiting, 1, -1) <= 0) continue;
  }
  return write_whole(file, openmetrics({}), readable_by_all);
}

}  // namespace

Result<Target> parse_target(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (text.empty() || (colon == std::string::npos && port_in(text)))
    return Error{.what = "neither a port nor a file",
                 .where = "--openmetrics '" + text + "'",
                 .remedy = "use :9400, HOST:PORT or ./FILE"};
  if (std::filesystem::path file = record::metrics_file(text); !file.empty()) return Target(std::move(file));
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

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_exchange{5};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<SocketAddress> socket_address(const Endpoint& endpoint) {
  SocketAddress address;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, endpoint.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(endpoint.port);
    std::memcpy(&address.storage, &four, address.size = sizeof four);
    return address;
  }
  if (::inet_pton(AF_INET6, endpoint.host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    std::memcpy(&address.storage, &six, address.size = sizeof six);
    return address;
  }
  return std::nullopt;
}

std::uint16_t port_of(int file) {
  SocketAddress address{.size = sizeof(sockaddr_storage)};
  ::getsockname(file, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  sockaddr_in four{};
  sockaddr_in6 six{};
  std::memcpy(&four, &address.storage, sizeof four);
  std::memcpy(&six, &address.storage, sizeof six);
  return ntohs(address.storage.ss_family == AF_INET6 ? six.sin6_port : four.sin_port);
}

/// One request and its response.
class Connection {
 public:
  Connection(int file, Clock::time_point deadline) : file_(file), deadline_(deadline) {}
  Connection(Connection&& other) noexcept
      : file_(std::exchange(other.file_, -1)),
        deadline_(other.deadline_),
        request_(std::move(other.request_)),
        head_(std::move(other.head_)),
        body_(std::move(other.body_)),
        sent_(other.sent_) {}
  Connection& operator=(Connection&& other) noexcept {
    std::swap(file_, other.file_);
    deadline_ = other.deadline_;
    request_ = std::move(other.request_);
    head_ = std::move(other.head_);
    body_ = std::move(other.body_);
    sent_ = other.sent_;
    return *this;
  }
  ~Connection() {
    if (file_ >= 0) ::close(file_);
  }

  pollfd waiting() const {
    return {.fd = file_, .events = static_cast<short>(head_.empty() ? POLLIN : POLLOUT), .revents = 0};
  }
  Clock::time_point deadline() const { return deadline_; }

  /// Advances as far as possible without blocking. False when done.
  bool advance(const std::function<ScrapeServer::Text()>& text) {
    if (head_.empty() && !receive(text)) return false;
    return head_.empty() || send();
  }

 private:
  /// False if the other end is gone, or sent too much.
  bool receive(const std::function<ScrapeServer::Text()>& text) {
    std::array<char, 2048> bytes{};
    const ssize_t size = ::recv(file_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
    if (size <= 0) return false;
    request_.append(bytes.data(), static_cast<std::size_t>(size));
    if (request_.find("\r\n\r\n") == std::string::npos && request_.find("\n\n") == std::string::npos)
      return request_.size() < ScrapeServer::largest_request;
    answer(text);
    return true;
  }

  void answer(const std::function<ScrapeServer::Text()>& text) {
    const std::string_view line = std::string_view(request_).substr(0, request_.find_first_of("\r\n"));
    const std::string_view method = line.substr(0, line.find(' '));
    std::string_view path = line.substr(std::min(line.size(), method.size() + 1));
    path = path.substr(0, path.find_first_of(" ?"));
    std::string status = "200 OK", type = openmetrics_type;
    if (method != "GET" && method != "HEAD") {
      status = "405 Method Not Allowed";
    } else if (path != "/metrics") {
      status = "404 Not Found";
    } else {
      body_ = text();
    }
    if (!body_) {
      body_ = std::make_shared<const std::string>("GET /metrics\n");
      type = "text/plain; charset=utf-8";
    }
    head_ = "HTTP/1.1 " + status + "\r\nContent-Type: " + type +
            "\r\nContent-Length: " + std::to_string(body_->size()) + "\r\nConnection: close\r\n\r\n";
    if (method == "HEAD") body_ = std::make_shared<const std::string>();
  }

  bool send() {
    while (sent_ < head_.size() + body_->size()) {
      const std::string_view rest = sent_ < head_.size() ? std::string_view(head_).substr(sent_)
                                                         : std::string_view(*body_).substr(sent_ - head_.size());
      const ssize_t size = ::send(file_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      sent_ += static_cast<std::size_t>(size);
    }
    return false;
  }

  int file_;
  Clock::time_point deadline_;
  std::string request_, head_;  // the response head is empty until the whole request has arrived
  ScrapeServer::Text body_;
  std::size_t sent_ = 0;  // of head and body
};

}  // namespace

Result<ScrapeServer> ScrapeServer::open(const Endpoint& endpoint) {
  Result<std::optional<ScrapeServer>> server = open_if_free(endpoint);
  if (!server) return std::move(server).error();
  if (!*server) return in_use(endpoint);
  return **std::move(server);
}

Result<std::optional<ScrapeServer>> ScrapeServer::open_if_free(const Endpoint& endpoint) {
  const auto address = socket_address(endpoint);
  if (!address)
    return Error{.what = "is not a numeric address",
                 .where = endpoint.host,
                 .remedy = "use 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT for all interfaces, or ./FILE"};
  const int file = ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (file < 0 || ::bind(file, reinterpret_cast<const sockaddr*>(&address->storage), address->size) != 0 ||
      ::listen(file, static_cast<int>(most_connections)) != 0) {
    const int reason = errno;
    if (file >= 0) ::close(file);
    if (reason == EADDRINUSE) return std::optional<ScrapeServer>();
    return Error{.what = "can't listen: " + std::generic_category().message(reason), .where = text_of(endpoint)};
  }
  return std::optional(ScrapeServer(file, {.host = endpoint.host, .port = port_of(file)}));
}

ScrapeServer::ScrapeServer(ScrapeServer&& other) noexcept
    : file_(std::exchange(other.file_, -1)), endpoint_(std::move(other.endpoint_)) {}

ScrapeServer::~ScrapeServer() {
  if (file_ >= 0) ::close(file_);
}

std::string ScrapeServer::address() const { return "http://" + text_of(endpoint_) + "/metrics"; }

void ScrapeServer::run(int end, const std::function<Text()>& text) {
  std::deque<Connection> connections;  // in order of arrival, and so of their deadlines
  while (true) {
    std::vector<pollfd> waiting{{.fd = end, .events = POLLIN, .revents = 0},
                                {.fd = file_, .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections) waiting.push_back(connection.waiting());
    int timeout = -1;
    if (!connections.empty()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(connections.front().deadline() - Clock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    if (::poll(waiting.data(), waiting.size(), timeout) < 0 && errno != EINTR) return;
    if (waiting[0].revents != 0) return;
    const Clock::time_point now = Clock::now();
    std::size_t place = 2;
    std::erase_if(connections, [&](Connection& connection) {
      const bool ready = waiting[place++].revents != 0;
      return connection.deadline() <= now || (ready && !connection.advance(text));
    });
    if (waiting[1].revents == 0) continue;
    const int accepted = ::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    // Without a free place or descriptor for another, the oldest is closed.
    if (!connections.empty() && (accepted < 0 || connections.size() == most_connections)) connections.pop_front();
    if (accepted < 0) continue;
    connections.emplace_back(accepted, now + longest_exchange);
  }
}

namespace {

namespace fs = std::filesystem;

bool has_socket(pid_t process, const std::string& link) {
  std::error_code problem;
  for (auto at = fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", problem);
       !problem && at != fs::directory_iterator(); at.increment(problem)) {
    std::error_code closed_meanwhile;
    if (fs::read_symlink(at->path(), closed_meanwhile) == link) return true;
  }
  return false;
}

}  // namespace

std::uint64_t listening_socket(std::string_view table, std::uint16_t port) {
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // titles
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout;
    std::uint64_t socket = 0;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> socket;
    const std::string digits = local.substr(local.rfind(':') + 1);
    std::uint16_t of_line = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), of_line, 16);
    const bool listens = state == "0A";
    if (fields && listens && problem == std::errc() && of_line == port) return socket;
  }
  return 0;
}

std::string port_owner(std::uint16_t port) {
  for (const char* const file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const Result<std::string> table = read_whole_file(file);
    const std::uint64_t socket = table ? listening_socket(*table, port) : 0;
    if (socket == 0) continue;
    const std::string link = "socket:[" + std::to_string(socket) + "]";
    for (const pid_t process : attach::all_processes())
      if (has_socket(process, link))
        return attach::command_name(process) + " (process " + std::to_string(process) + ")";
  }
  return {};
}

}  // namespace memreel::top
