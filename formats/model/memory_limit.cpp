#include "formats/model/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "formats/model/quantity.h"

namespace memreel {

Bytes default_memory_limit(Bytes file_size, std::uint64_t factor, Bytes least) {
  const Bytes machine{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
  const bool overflows = file_size.count > std::numeric_limits<std::uint64_t>::max() / factor;
  const Bytes of_file = overflows ? machine : std::max(file_size * factor, least);
  return std::min(of_file, Bytes{machine.count / 4});
}

Error over_memory_limit(const std::string& where, const std::string& what, Bytes limit) {
  return {.what = what + " " + text_of(limit),
          .where = where,
          .remedy = "allow more with --max-memory if you trust the file"};
}

}  // namespace memreel
