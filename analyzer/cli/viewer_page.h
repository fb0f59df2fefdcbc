// The viewer as a page for browsers (viewer/page), with a trace in it.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {

/// A page that shows a trace, in two parts: what says where the trace comes from stands between them.
class ViewerPage {
 public:
  /// The one that was built or installed with this program. Fails where there is none, and says how to get it.
  static Result<ViewerPage> find();

  /// The page with the whole trace in it: it opens from a disk. `name` is what the viewer calls the trace. Memory: none
  /// that grows with the trace.
  Result<void> write(std::ostream& out, std::string_view name, ByteFile& trace) const;
  /// The page that gets the trace from `address`, which may be relative to its own.
  std::string that_fetches(std::string_view name, std::string_view address) const;

 private:
  std::string before_, after_;
};

/// Bytes as base64 (RFC 4648), with padding.
std::string base64(std::string_view bytes);

}  // namespace memreel::cli
