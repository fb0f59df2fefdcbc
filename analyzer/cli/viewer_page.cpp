// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/viewer_page.h"

#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <ostream>
#include <span>
#include <system_error>
#include <thread>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/describe/markup.h"
#include "formats/command_line/help.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/files.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_request = 16384;
constexpr std::size_t most_connections = 32;
constexpr std::chrono::seconds longest_wait{30};  // for slow requests and slow readers

/// What the page may do: run its own code, and fetch its trace from here. No other page may embed it.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

Error problem(const std::string& what, const std::string& where, const std::string& remedy) {
  return {.what = what + ": " + std::generic_category().message(errno), .where = where, .remedy = remedy};
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Reads a request up to its empty line; none if it is too long or too late.
std::optional<std::string> read_request(int socket) {
  const auto until = Clock::now() + longest_wait;
  std::string request;
  std::array<char, 4096> part{};
  while (request.find("\r\n\r\n") == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || request.size() > longest_request) return std::nullopt;
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t got = ::recv(socket, part.data(), part.size(), 0);
    if (got <= 0) return std::nullopt;
    request.append(part.data(), static_cast<std::size_t>(got));
  }
  return request;
}

/// Compares in constant time.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  int different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return different == 0;
}

std::string head(std::string_view status, std::string_view type, std::uint64_t size) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(size) +
         "\r\nConnection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
         "X-Content-Type-Options: nosniff\r\nCross-Origin-Opener-Policy: same-origin\r\n"
         "Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: " +
         std::string(policy) + "\r\n\r\n";
}

void refuse(int socket, std::string_view status) {
  const std::string text = std::string(status) + "\n";
  send_all(socket, head(status, "text/plain", text.size()) + text);
}

void send_document(int socket, const Document& document, bool with_content) {
  const std::uint64_t size = document.content->size();  // data appended later is not sent
  if (!send_all(socket, head("200 OK", document.type, size)) || !with_content) return;
  std::vector<char> bytes(std::size_t{1} << 18U);
  for (std::uint64_t done = 0; done < size;) {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), size - done));
    const auto count = document.content->read(done, std::as_writable_bytes(std::span(bytes).first(wanted)));
    if (!count || *count == 0 || !send_all(socket, {bytes.data(), *count})) return;
    done += *count;
  }
}

/// `asked` is set when the request is complete.
void answer(int socket, const std::string& root, const std::vector<Document>& documents, std::atomic<bool>& asked) {
  const timeval longest{.tv_sec = longest_wait.count(), .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  const std::optional<std::string> request = read_request(socket);
  if (!request) return;
  asked = true;
  const std::string_view line = std::string_view(*request).substr(0, request->find("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return refuse(socket, "400 Bad Request");
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  target = target.substr(0, target.find('?'));
  if (method != "GET" && method != "HEAD") return refuse(socket, "405 Method Not Allowed");
  for (const Document& document : documents)
    if (same(target, root + document.name)) return send_document(socket, document, method == "GET");
  refuse(socket, "404 Not Found");
}

/// At most `most_connections` threads. Beyond that, the oldest connection that has not asked for anything ends: who
/// connects and stays silent keeps nobody else out.
class Connections {
 public:
  Connections() = default;
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  ~Connections() {
    for (Connection& connection : all_) connection.thread.detach();
  }

  /// `work(socket, asked)`. Closes the socket without it if there are too many that are answered, or no thread.
  template <class Work>
  void start(Socket socket, Work work) {
    join_finished();
    if (all_.size() >= most_connections) {
      const auto silent = std::ranges::find_if(all_, [](const Connection& each) { return !each.state->asked; });
      if (silent == all_.end()) return;
      ::shutdown(silent->state->socket.get(), SHUT_RDWR);
      silent->thread.join();
      all_.erase(silent);
    }
    const auto state = std::make_shared<State>(std::move(socket));
    try {
      all_.push_back({.thread = std::thread([work = std::move(work), state] {
                        work(state->socket.get(), state->asked);
                        ::shutdown(state->socket.get(), SHUT_RDWR);
                        state->done = true;
                      }),
                      .state = state});
    } catch (const std::system_error&) {  // a limit on threads: others may end
    }
  }

 private:
  struct State {
    explicit State(Socket of) : socket(std::move(of)) {}
    Socket socket;
    std::atomic<bool> asked = false, done = false;
  };
  struct Connection {
    std::thread thread;
    std::shared_ptr<State> state;
  };

  void join_finished() {
    std::erase_if(all_, [](Connection& connection) {
      if (!connection.state->done) return false;
      connection.thread.join();  // `done` is the last thing it sets
      return true;
    });
  }

  std::vector<Connection> all_;  // oldest first
};

std::optional<std::string> random_root() {
  std::array<char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return std::nullopt;
  return "/" + hex_of(std::string_view(bytes.data(), bytes.size())) + "/";
}

}  // namespace

Result<PageServer> PageServer::listen(const std::string& host, std::uint16_t port) {
  const std::string where = host + ":" + std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return Error{.what = "'" + host + "' is not an address of this computer",
                 .where = "--host",
                 .remedy = "give a numeric address: 127.0.0.1 for this computer only, 0.0.0.0 for all"};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (socket.get() < 0 || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), static_cast<int>(most_connections)) != 0)
    return problem("can't listen", where, "name another port, or none to use a free one");
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  std::array<char, NI_MAXSERV> service{};
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, service.data(), service.size(),
                    NI_NUMERICSERV) != 0)
    return problem("can't listen", where, "");
  std::optional<std::string> root = random_root();
  if (!root) return problem("can't get random numbers for an unguessable address", "", "");
  return PageServer(socket.release(), static_cast<std::uint16_t>(std::stoi(service.data())), *std::move(root));
}

PageServer::~PageServer() {
  if (socket_ >= 0) ::close(socket_);
}

Result<void> PageServer::serve(const std::vector<Document>& documents) const {
  // Threads share ownership of what they need: this function may return before they end.
  const auto served = std::make_shared<const std::vector<Document>>(documents);
  Connections connections;
  for (;;) {
    Socket socket(::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (errno == EINTR || errno == ECONNABORTED || errno == EMFILE || errno == ENFILE) continue;
      return problem("no more connections can be accepted", "", "");
    }
    connections.start(std::move(socket), [served, root = token_](int connection, std::atomic<bool>& asked) {
      answer(connection, root, *served, asked);
    });
  }
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_name = "memreel-view.html", place = "<!--trace-->";

/// For an installed program: ../share/memreel; for one in build/PRESET/bin: build/web. Empty if found in neither.
fs::path find_file() {
  std::error_code problem;
  const fs::path home = fs::read_symlink("/proc/self/exe", problem).parent_path().parent_path();
  if (fs::path file = home / "share/memreel" / file_name; fs::is_regular_file(file, problem)) return file;
  const fs::path build = home.parent_path();
  if (fs::path file = build / "web" / file_name; build.filename() == "build" && fs::is_regular_file(file, problem))
    return file;
  return {};
}

std::string element(std::string_view name, std::string_view address) {
  std::string text = R"(<script type="application/octet-stream" id="trace" data-name=")" + html_escaped(name) + "\"";
  if (!address.empty()) text += " data-address=\"" + html_escaped(address) + "\"";
  return text + ">";
}

constexpr std::string_view end_of_element = "</script>";

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) { return j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U; };
    const unsigned group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += i + digit <= bytes.size() ? digits[(group >> (18 - 6 * digit)) & 63U] : '=';
  }
  return text;
}

Result<ViewerPage> ViewerPage::find() {
  const fs::path file = find_file();
  if (file.empty())
    return Error{.what = "the viewer's browser page is not installed",
                 .where = std::string(file_name),
                 .remedy = "build it with ./dev web in memreel's source; memreel report -o FILE.html works without it"};
  const Result<std::string> read = read_whole_file(file);
  if (!read) return read.error();
  const std::string& text = *read;
  const std::size_t at = text.find(place);
  if (at == std::string::npos)
    return Error{.what = "is not the viewer's page", .where = file.string(), .remedy = "reinstall memreel"};
  ViewerPage page;
  page.before_ = text.substr(0, at);
  page.after_ = text.substr(at + place.size());
  return page;
}

Result<void> ViewerPage::write(std::ostream& out, std::string_view name, ByteFile& trace) const {
  out << before_ << element(name, {});
  std::vector<char> bytes(std::size_t{3} << 16U);  // a multiple of a base64 group
  for (std::uint64_t done = 0, size = trace.size(); done < size;) {
    const Result<std::size_t> count = trace.read(done, std::as_writable_bytes(std::span(bytes)));
    if (!count) return count.error();
    if (*count == 0) break;
    out << base64({bytes.data(), *count});
    done += *count;
  }
  out << end_of_element << after_;
  return {};
}

std::string ViewerPage::that_fetches(std::string_view name, std::string_view address) const {
  return before_ + element(name, address) + std::string(end_of_element) + after_;
}

// memreel view --serve: the viewer in a browser, for computers without a screen.

namespace {

struct ServeArguments {
  std::filesystem::path file;
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  Bytes memory_limit;
};

bool is_port(std::string_view word) {
  return !word.empty() && word.size() <= 5 && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

/// Text as a file that owns it.
std::shared_ptr<ByteFile> file_of(std::string text) {
  const auto kept = std::make_shared<const std::string>(std::move(text));
  const std::shared_ptr<ByteFile> file = memory_file(std::as_bytes(std::span(*kept)));
  return {file.get(), [kept, file](ByteFile*) {}};
}

std::string this_computer() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? printable(name.data()) : "SERVER";
}

void say_where(const ServeArguments& arguments, const PageServer& server) {
  const bool is_loopback = arguments.host.starts_with("127.") || arguments.host == "::1";
  const std::string port = std::to_string(server.port());
  const std::string host = arguments.host == "0.0.0.0" || arguments.host == "::" ? this_computer()
                           : arguments.host.find(':') != std::string::npos       ? "[" + arguments.host + "]"
                                                                                 : arguments.host;
  std::cout << printable(arguments.file.filename().string()) << " is shown at\n  http://" << host << ':' << port
            << server.root() << '\n';
  if (is_loopback)
    std::cout << "From another computer, run this there first, then open the same address:\n  ssh -N -L " << port << ':'
              << host << ':' << port << ' ' << this_computer() << '\n';
  std::cout << "Press Ctrl+C to stop." << std::endl;
  if (!is_loopback)
    note("anyone who can reach this computer and knows that address can read the trace, also in transit");
}

Exit serve(const ServeArguments& arguments) {
  const Result<ViewerPage> page = ViewerPage::find();
  if (!page) return fail(page.error());
  const Result<std::shared_ptr<ByteFile>> trace = open_whole_trace(arguments.file, arguments.memory_limit);
  if (!trace) return fail(trace.error());
  Result<PageServer> server = PageServer::listen(arguments.host, arguments.port);
  if (!server) return fail(server.error());
  constexpr std::string_view name_of_trace = "trace.reel";
  std::string html = page->that_fetches(arguments.file.filename().string(), name_of_trace);
  const std::vector<Document> documents{
      {.name = "", .type = "text/html; charset=utf-8", .content = file_of(std::move(html))},
      {.name = std::string(name_of_trace), .type = "application/octet-stream", .content = *trace}};
  say_where(arguments, *server);
  if (Result<void> flushed = flush_output(); !flushed) return fail(flushed.error());
  const Result<void> ended = server->serve(documents);
  return ended ? Exit::done : fail(ended.error());
}

}  // namespace

bool asks_to_serve(std::span<char* const> words) {
  return words.size() > 1 && std::string_view(words[1]) == "view" &&
         std::ranges::any_of(words.subspan(2),
                             [](std::string_view word) { return word == "--serve" || word.starts_with("--serve="); });
}

Exit serve_view(std::span<char* const> words) {
  // --serve 8080 and --serve=8080 mean --serve --port 8080; anything else after --serve is the trace.
  std::vector<std::string> arguments_given;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("--serve=")) {
      arguments_given.insert(arguments_given.end(), {"--serve", "--port", std::string(word.substr(8))});
    } else {
      arguments_given.emplace_back(word);
      if (word == "--serve" && i + 1 < words.size() && is_port(words[i + 1])) arguments_given.emplace_back("--port");
    }
  }
  std::ranges::reverse(arguments_given);  // the order CLI11 expects

  CLI::App app("memreel view --serve shows a trace in a browser, for computers without a screen.",
               "memreel view --serve [PORT]");
  fit_help(app);
  ServeArguments arguments;
  app.add_option("TRACE", arguments.file, "Trace, or any file that import reads")->required();
  bool serves = true;  // always set when this function is called
  app.add_flag("--serve", serves, "Serve the viewer as a page; a number after it is the port");
  add_whole_number(app, "--port", arguments.port, {0, std::numeric_limits<std::uint16_t>::max()}, "Port [a free one]");
  app.add_option("--host", arguments.host, "Address to listen on [127.0.0.1: this computer only]");
  add_memory_option(app, arguments.memory_limit);
  app.footer(
      "Examples:\n"
      "  memreel view --serve run.reel\n"
      "  memreel view --serve 8080 snapshot.pickle\n\n"
      "Exit code: 0 ended by Ctrl-C; 2 bad usage or input that can't be read.");
  if (const auto problem = empty_value(words.subspan(1))) return fail(*problem);
  try {
    app.parse(arguments_given);
  } catch (const CLI::ParseError& problem) {
    const Result<int> answered = answer_parse(app, problem);
    return answered ? static_cast<Exit>(*answered) : fail(answered.error());
  }
  return serve(arguments);
}

}  // namespace memreel::cli
