// A server for one person's browser: a few documents below an address that nobody can guess.
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
  std::string name;  // its address ends so
  std::string type;  // as in Content-Type
  std::shared_ptr<ByteFile> content;
};

/// HTTP/1.1, GET and HEAD only. What is asked for is compared with the addresses of the documents, and never taken for
/// the path of a file.
class PageServer {
 public:
  /// Listens at `host`, a numeric address, and `port` (0: a free one).
  static Result<PageServer> listen(const std::string& host, std::uint16_t port);
  PageServer(PageServer&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), port_(other.port_), token_(std::move(other.token_)) {}
  PageServer& operator=(PageServer&&) = delete;
  ~PageServer();

  std::uint16_t port() const { return port_; }
  /// What every address begins with: 128 bits of chance between slashes.
  const std::string& root() const { return token_; }
  /// Answers until the process ends, each connection on a thread of its own. Fails where no more can be accepted.
  Result<void> serve(const std::vector<Document>& documents) const;

 private:
  PageServer(int socket, std::uint16_t port, std::string token)
      : socket_(socket), port_(port), token_(std::move(token)) {}

  int socket_;
  std::uint16_t port_;
  std::string token_;
};

}  // namespace memreel::cli
