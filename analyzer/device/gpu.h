// One GPU, opened through the driver, that meters every call with a cost.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/device/driver.h"
#include "analyzer/replay/unit_costs.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::gpu {

/// The calls of one kind: number, bytes, time.
struct Tally {
  std::uint64_t calls = 0;
  Bytes bytes;
  double seconds = 0;
};

using Tallies = std::array<Tally, driver_call_kinds>;

/// The GPU with a given number; its primary context is current on the calling thread, the only one that may use it.
///
/// Calls that fail for lack of memory report it in their result. The first other failure is kept in error(); from then
/// on the GPU is only asked to free what it gave.
class Gpu {
 public:
  /// Errors: there is no such GPU, or it can't be used.
  static Result<std::unique_ptr<Gpu>> open(Driver driver, int number);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  const std::string& name() const { return name_; }
  /// "13.0"
  const std::string& cuda_version() const { return cuda_version_; }
  int number() const { return number_; }

  std::optional<DevicePointer> malloc(Bytes size);
  void free(DevicePointer pointer, Bytes size);
  std::optional<DevicePointer> malloc_async(Bytes size, Pool pool, Stream stream);
  void free_async(DevicePointer pointer, Bytes size, Stream stream);
  /// Maps new physical memory at `address`, which is inside reserved addresses. False: out of memory.
  bool map_new(DevicePointer address, Bytes size);
  /// Releases the memory of one map_new() call.
  void unmap(DevicePointer address, Bytes size);
  std::optional<DevicePointer> reserve_addresses(Bytes size);
  void free_addresses(DevicePointer address, Bytes size);
  void synchronize();
  void synchronize_stream(Stream stream);
  void trim(Pool pool);

  /// Unmetered calls: they serve the measurement, or happen once.
  Bytes free_memory();
  Pool create_pool(std::optional<Bytes> most, Bytes release_threshold);
  void destroy_pool(Pool pool);
  Bytes pool_bytes(Pool pool, PoolAttribute attribute);
  void set_pool_flag(Pool pool, PoolAttribute attribute, bool value);
  Stream create_stream();
  void destroy_stream(Stream stream);
  /// Work submitted to `waiting` from now on runs after the work submitted to `awaited` so far.
  void order(Stream awaited, Stream waiting);

  const Tallies& tallies() const { return tallies_; }
  void reset_tallies() { tallies_ = {}; }
  const std::optional<Error>& error() const { return error_; }
  const Driver& driver() const { return driver_; }

 private:
  explicit Gpu(Driver driver) : driver_(std::move(driver)) {}

  /// Makes a call, metered as `kind`. Returns true on success, false if out of memory or on failure.
  template <class Call>
  bool metered(DriverCall kind, Bytes size, std::string_view what, Call&& call);
  bool granted(Status status, std::string_view what);    // lack of memory is no failure
  bool succeeded(Status status, std::string_view what);  // everything else is

  Driver driver_;
  DeviceNumber device_ = 0;
  int number_ = 0;
  bool retained_ = false;
  std::string name_, cuda_version_;
  Tallies tallies_{};
  std::optional<Error> error_;
};

}  // namespace memreel::gpu
