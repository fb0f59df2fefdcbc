// A server for one person's browser: a few documents at an unguessable address.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {

struct Document {
  std::string name;  // the last part of its address
  std::string type;  // the Content-Type
  std::shared_ptr<ByteFile> content;
};

/// HTTP/1.1, GET and HEAD only. Request targets are compared with the documents' addresses and never used as file
/// paths.
class PageServer {
 public:
  /// Listens at `host`, a numeric address, and `port` (0: a free one).
  static Result<PageServer> listen(const std::string& host, std::uint16_t port);
  PageServer(PageServer&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), port_(other.port_), token_(std::move(other.token_)) {}
  PageServer& operator=(PageServer&&) = delete;
  ~PageServer();

  std::uint16_t port() const { return port_; }
  /// The prefix of every address: 128 random bits between slashes.
  const std::string& root() const { return token_; }
  /// Serves until the process ends, each connection on its own thread. Fails if no more connections can be accepted.
  Result<void> serve(const std::vector<Document>& documents) const;

 private:
  PageServer(int socket, std::uint16_t port, std::string token)
      : socket_(socket), port_(port), token_(std::move(token)) {}

  int socket_;
  std::uint16_t port_;
  std::string token_;
};

}  // namespace memreel::cli
