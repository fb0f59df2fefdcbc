// What a profile says about memory, in the importer's own terms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::kineto {

/// Slices that begin together are nested in this order.
enum class SliceKind : std::uint8_t { annotation, python_function, cpu_op };

/// Something that ran on a thread. Times are in nanoseconds since Profile::base_ns.
struct Slice {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t tid = 0;
  std::uint32_t name = 0;  // in Profile::names
  SliceKind kind = SliceKind::cpu_op;
};

/// "[memory]", or "[OutOfMemory]" when `failed`.
struct MemoryEvent {
  std::int64_t time_ns = 0;
  std::uint64_t tid = 0;
  std::int32_t device = 0;
  bool failed = false;
  std::int64_t bytes = 0;              // negative: freed
  std::uint64_t address = 0;           // 0 only when failed
  std::optional<std::uint64_t> total;  // allocated bytes after it
};

struct Profile {
  std::vector<std::string> names;
  std::vector<Slice> slices;        // in file order, like the next
  std::vector<MemoryEvent> memory;  // of devices
  std::int64_t base_ns = 0;         // since the epoch
  std::uint64_t process = 0;        // 0: not known
  std::optional<std::uint64_t> rank, world_size;
  std::uint64_t host_events = 0;      // of other devices' memory
  std::uint64_t without_address = 0;  // device memory events without an address
  std::uint64_t incomplete = 0;       // events that lack something else
};

/// Reads the document. Errors: it is damaged, or has impossible values.
Result<Profile> read_profile(ByteCursor& bytes);

}  // namespace memreel::kineto
