// One GPU, opened through the driver, that meters every call which costs something.
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

/// Calls of one kind: how many, for how many bytes, how long.
struct Tally {
  std::uint64_t calls = 0;
  Bytes bytes;
  double seconds = 0;
};

using Tallies = std::array<Tally, driver_call_kinds>;

/// The GPU of a number, its primary context current on the calling thread, which is the only one to use it.
///
/// Calls that fail for want of memory say so by their result. Any other failure is kept in error(), the first of them;
/// from then on nothing is asked of the GPU but to take back what it gave.
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
  /// Physical memory of its own at `address`, which is inside reserved addresses. False: no memory.
  bool map_new(DevicePointer address, Bytes size);
  /// Gives back what one map_new() put there.
  void unmap(DevicePointer address, Bytes size);
  std::optional<DevicePointer> reserve_addresses(Bytes size);
  void free_addresses(DevicePointer address, Bytes size);
  void synchronize();
  void synchronize_stream(Stream stream);
  void trim(Pool pool);

  /// Calls that are not metered: they answer for the measurement, or come once.
  Bytes free_memory();
  Pool create_pool(std::optional<Bytes> most, Bytes release_threshold);
  void destroy_pool(Pool pool);
  Bytes pool_bytes(Pool pool, PoolAttribute attribute);
  void set_pool_flag(Pool pool, PoolAttribute attribute, bool value);
  Stream create_stream();
  void destroy_stream(Stream stream);
  /// What is given to `waiting` from now on runs after what was given to `awaited` so far.
  void order(Stream awaited, Stream waiting);

  const Tallies& tallies() const { return tallies_; }
  void reset_tallies() { tallies_ = {}; }
  const std::optional<Error>& error() const { return error_; }
  const Driver& driver() const { return driver_; }

 private:
  explicit Gpu(Driver driver) : driver_(std::move(driver)) {}

  /// Makes a call, metered as `kind`. True when it succeeded, false when there was no memory for it or it failed.
  template <class Call>
  bool metered(DriverCall kind, Bytes size, std::string_view what, Call&& call);
  bool granted(Status status, std::string_view what);    // want of memory is no failure
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
