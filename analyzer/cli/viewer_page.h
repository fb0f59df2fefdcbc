// The viewer as a browser page (viewer/page), with a trace embedded.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {

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
