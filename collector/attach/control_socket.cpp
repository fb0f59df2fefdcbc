// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/control_socket.h"

#include <poll.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "collector/attach/process.h"

namespace memreel::attach {
namespace {

constexpr std::string_view protocol = "memreel-control/1";

}  // namespace

std::string_view Message::operator[](std::string_view name) const {
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found != fields.end() ? std::string_view(found->second) : std::string_view{};
}

std::uint64_t Message::number(std::string_view name) const {
  const std::string_view text = (*this)[name];
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? value : 0;
}

std::string to_bytes(const Message& message) {
  std::string bytes;
  const auto add = [&](std::string_view text) { bytes.append(text.substr(0, text.find('\0'))).push_back('\0'); };
  add(protocol);
  add(message.word);
  for (const auto& [name, value] : message.fields) add(name + "=" + value);
  return bytes;
}

Result<Message> parse_message(std::span<const char> bytes) {
  const Error malformed{.what = "sent a malformed message"};
  std::string_view rest(bytes.data(), bytes.size());
  if (rest.size() > largest_message || !rest.ends_with('\0')) return malformed;
  const auto next = [&] {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(text.size() + 1);
    return text;
  };
  const std::string_view version = next();
  if (!version.starts_with(protocol.substr(0, protocol.find('/') + 1))) return malformed;
  if (version != protocol)
    return Error{.what = "uses protocol " + std::string(version) + ", not " + std::string(protocol),
                 .remedy = "use the version of memreel that the program was started with"};
  if (rest.empty()) return malformed;
  Message message{.word = std::string(next()), .fields = {}};
  while (!rest.empty()) {
    const std::string_view field = next();
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == std::string_view::npos) return malformed;
    message.fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return message;
}

Message error_message(const Error& error) {
  return {.word = "error", .fields = {{"what", error.what}, {"where", error.where}, {"remedy", error.remedy}}};
}

Error error_of(const Message& answer) {
  return {.what = std::string(answer["what"]),
          .where = std::string(answer["where"]),
          .remedy = std::string(answer["remedy"])};
}

namespace {

struct Ids {
  uid_t real = 0, effective = 0, saved = 0;
  gid_t real_group = 0, effective_group = 0, saved_group = 0;

  friend bool operator==(const Ids&, const Ids&) = default;
};

Ids current_ids() {
  Ids ids;
  ::getresuid(&ids.real, &ids.effective, &ids.saved);
  ::getresgid(&ids.real_group, &ids.effective_group, &ids.saved_group);
  return ids;
}

const Ids ids_at_load = current_ids();  // NOLINT(cert-err58-cpp): it throws nothing

/// The kernel clears this when a process changes its IDs or gains rights, even before the agent was loaded.
bool may_be_traced() {
  constexpr int by_its_user = 1;  // SUID_DUMP_USER
  return ::prctl(PR_GET_DUMPABLE) == by_its_user;
}

Error refused(std::string what) {
  return {.what = std::move(what), .remedy = "run memreel attach as root, or start the program with memreel record"};
}

}  // namespace

bool has_raised_privileges() { return ::getauxval(AT_SECURE) != 0; }

Result<void> check_controller(uid_t user) {
  if (has_raised_privileges()) return refused("runs with raised privileges (setuid, setgid or file capabilities)");
  if (user == 0) return {};
  const Ids ids = current_ids();
  if (user != ids.real || user != ids.effective || user != ids.saved)
    return refused("is not owned by user " + std::to_string(user) + " alone");
  if (ids != ids_at_load || ids.real_group != ids.effective_group || ids.real_group != ids.saved_group)
    return refused("has changed its user or group");
  if (!may_be_traced()) return refused("can't be traced by its own user");
  return {};
}

namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

/// Of a process by its number in its own namespace.
Address address_of(std::uint64_t process, std::uint64_t start) {
  const std::string text =
      std::string(control_socket_prefix) + "-" + std::to_string(process) + "-" + std::to_string(start);
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(&address.name.sun_path[1], text.data(), text.size());  // the first byte stays zero: abstract
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

void limit_waits(int connection, std::chrono::milliseconds limit) {
  const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

/// At least a millisecond: 0 would mean waiting forever.
std::chrono::milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

bool send(int connection, const Message& message) {
  const std::string bytes = to_bytes(message);
  return ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// `was_closed`: set if the other end closed without reading what it was sent.
Result<Message> receive(int connection, bool* was_closed = nullptr) {
  std::vector<char> bytes(largest_message + 1);
  const ssize_t size = ::recv(connection, bytes.data(), bytes.size(), 0);
  if (was_closed != nullptr) *was_closed = size < 0 && errno == ECONNRESET;
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{.what = "does not answer"};
  if (size < 0) return Error{.what = std::generic_category().message(errno)};
  if (size == 0) return Error{.what = "ended before it answered"};
  return parse_message(std::span(bytes).first(static_cast<std::size_t>(size)));
}

/// The other side closes the connection after its answer: from then on it keeps nothing of the request.
void await_end(int connection) {
  char byte = 0;
  [[maybe_unused]] const ssize_t none = ::recv(connection, &byte, sizeof byte, 0);
}

}  // namespace

bool ControlSocket::open() {
  const auto start = start_time(::getpid());
  if (!start || is_open() || has_raised_privileges()) return false;
  const Address address = address_of(static_cast<std::uint64_t>(::getpid()), *start);
  const int file = move_up(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (file < 0) return false;
  const auto identity = identity_of(file);
  if (!identity || ::bind(file, generic(address), address.size) != 0 || ::listen(file, 4) != 0) {
    ::close(file);
    return false;
  }
  identity_ = *identity;
  file_ = file;
  return true;
}

bool ControlSocket::is_ours() const { return identity_of(file_) == identity_; }

void ControlSocket::hang_up() {
  if (is_open() && is_ours()) ::shutdown(file_, SHUT_RDWR);
}

void ControlSocket::close() {
  if (is_open() && is_ours()) ::close(file_);
  file_ = -1;
}

void ControlSocket::run(const std::function<Answer(const Message&)>& answer, std::chrono::milliseconds patience,
                        const std::function<bool()>& idle) {
  const int timeout = patience.count() == 0 ? -1 : static_cast<int>(patience.count());
  while (true) {
    pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, timeout);
    if (!is_ours() || (ready == 0 && idle())) return close();
    if (ready <= 0) continue;
    const int connection = ::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 && idle()) return close();
    if (connection < 0) continue;
    const bool last = serve(connection, answer);
    ::close(connection);
    if (last) return;
  }
}

/// True if it was the last one. The socket is already closed when that one is answered.
bool ControlSocket::serve(int connection, const std::function<Answer(const Message&)>& answer) {
  const auto peer = peer_of(connection);
  if (!peer) return false;
  // One is served at a time: who may not ask doesn't get to keep the others waiting.
  const auto allowed = check_controller(peer->uid);
  limit_waits(connection, std::chrono::milliseconds(allowed ? 1000 : 20));
  auto question = receive(connection);
  if (question && !allowed) question = allowed.error();
  Answer given{.message = question ? Message{} : error_message(question.error())};
  if (question) given = answer(*question);
  if (given.last) close();
  [[maybe_unused]] const bool sent = send(connection, given.message);
  return given.last;
}

Reply ask(pid_t process, const Message& question, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  const auto own_number = number_in_own_namespace(process);
  const auto start = start_time(process);
  if (!own_number || !start) return {};
  const Address address = address_of(*own_number, *start);
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return {};
  limit_waits(connection, limit);
  Reply reply;
  bool nobody_listens = false;
  if (::connect(connection, generic(address), address.size) == 0) {
    const auto peer = peer_of(connection);
    // Any process may take the name: accept only the process itself.
    reply.reached = peer && peer->pid == process;
    limit_waits(connection, left_until(deadline));
    if (!reply.reached)
      reply.answer = Error{.what = "its control socket belongs to another process"};
    else if (send(connection, question))
      reply.answer = receive(connection, &nobody_listens);
    else
      reply.answer = Error{.what = "does not answer"};
    limit_waits(connection, left_until(deadline));
    if (reply.answer) await_end(connection);
    if (reply.answer && reply.answer->word == "error") reply.answer = error_of(*reply.answer);
  }
  ::close(connection);
  // A finished listener closed its socket while this request was queued in it.
  return nobody_listens ? Reply{} : std::move(reply);
}

}  // namespace memreel::attach
