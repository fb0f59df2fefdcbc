// Driver calls, as CUPTI reports them.
#pragma once

#include <cstdint>
#include <string>

#include "collector/cuda/cupti_api.h"
#include "collector/cuda/watch.h"
#include "formats/model/result.h"

namespace memreel::cuda {

/// One per process, never destroyed: CUPTI may call it on any thread. begin() and end() may be called repeatedly, by
/// one thread at a time.
class CuptiBackend {
 public:
  explicit CuptiBackend(Watch& watch) : watch_(&watch) {}
  CuptiBackend(const CuptiBackend&) = delete;
  CuptiBackend& operator=(const CuptiBackend&) = delete;

  /// Finds CUPTI (`library`: this file only), subscribes and enables callbacks. The error lists what was tried, or
  /// names the current subscriber, as far as CUPTI reports it.
  Result<void> begin(const std::string& library);

  /// Unsubscribes. Callbacks may still be running.
  void end();

  /// Since begin(): the CUPTI file in use, and whether another subscriber holds it.
  const std::string& library() const { return library_; }
  bool taken() const { return taken_; }

  /// Since begin(): whether others can subscribe too; then, the previous subscriber. Empty: none, as far as CUPTI
  /// reports.
  bool is_shared() const { return is_shared_; }
  const std::string& sharer() const { return holder_; }

 private:
  static void called(void* self, int domain, std::uint32_t id, const void* data);
  void driver_call(std::uint32_t id, const cupti::CallbackData& data);
  void resource(std::uint32_t id, const cupti::ResourceData& data);
  KnownObjects::Known known(void* context);

  bool load(const std::string& file, std::string& why);
  bool subscribe(std::string& why);
  enum class Manner : std::uint8_t { old, alone, shared };  // cuptiSubscribe; cuptiSubscribe_v2, exclusive or shared
  cupti::Result subscribe_as(Manner manner);
  bool enable(std::string& why);

  Watch* watch_;
  cupti::Functions cupti_;
  cupti::Subscriber subscriber_ = nullptr;
  std::string library_;
  std::string holder_;  // as reported by the last subscription
  bool taken_ = false, is_shared_ = false;
};

}  // namespace memreel::cuda
