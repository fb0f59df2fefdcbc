// SPDX-License-Identifier: Apache-2.0
// The viewer as a browser page (viewer/page), with a trace embedded.
#pragma once

#include <iosfwd>
#include <memory>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {

// A server for one person's browser: a few documents at an unguessable address.

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

/// A page that shows a trace, in two parts: the trace's location goes between them.
class ViewerPage {
 public:
  /// Finds the page that was built or installed with this program. If there is none, fails with how to get it.
  static Result<ViewerPage> find();

  /// Writes the page with the whole trace embedded, so that it opens from disk. `name` is the name the viewer shows.
  /// Memory use does not grow with the trace.
  Result<void> write(std::ostream& out, std::string_view name, ByteFile& trace) const;
  /// The page that fetches the trace from `address`, which may be relative to the page's own.
  std::string that_fetches(std::string_view name, std::string_view address) const;

 private:
  std::string before_, after_;
};

/// Bytes as base64 (RFC 4648), with padding.
std::string base64(std::string_view bytes);

}  // namespace memreel::cli
