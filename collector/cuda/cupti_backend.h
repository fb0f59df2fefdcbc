// Driver calls as CUPTI reports them.
#pragma once

#include <cstdint>
#include <string>

#include "collector/cuda/cupti_api.h"
#include "collector/cuda/watch.h"
#include "formats/model/result.h"

namespace memreel::cuda {

/// One for a process, never destroyed: CUPTI may be calling it on any thread. begin() and end() may be called again and
/// again, by one thread at a time.
class CuptiBackend {
 public:
  explicit CuptiBackend(Watch& watch) : watch_(&watch) {}
  CuptiBackend(const CuptiBackend&) = delete;
  CuptiBackend& operator=(const CuptiBackend&) = delete;

  /// Finds CUPTI (`library`: this file and no other), takes it and has it report. The error says what was tried; or,
  /// when somebody else has it, who that is as far as CUPTI tells.
  Result<void> begin(const std::string& library);

  /// Gives CUPTI back. Callbacks may still be under way.
  void end();

  /// Since begin(): the file of CUPTI that is used, and whether it is held by somebody else.
  const std::string& library() const { return library_; }
  bool taken() const { return taken_; }

  /// Since begin(): whether others can have it as well; then, who had it before. Empty: nobody, as far as CUPTI tells.
  bool is_shared() const { return is_shared_; }
  const std::string& sharer() const { return holder_; }

 private:
  static void called(void* self, int domain, std::uint32_t id, const void* data);
  void driver_call(std::uint32_t id, const cupti::CallbackData& data);
  void resource(std::uint32_t id, const cupti::ResourceData& data);
  KnownObjects::Known known(void* context);

  bool load(const std::string& file, std::string& why);
  bool subscribe(std::string& why);
  enum class Manner : std::uint8_t { old, alone, shared };  // cuptiSubscribe; cuptiSubscribe_v2, without others or with
  cupti::Result subscribe_as(Manner manner);
  bool enable(std::string& why);

  Watch* watch_;
  cupti::Functions cupti_;
  cupti::Subscriber subscriber_ = nullptr;
  std::string library_;
  std::string holder_;  // as the last subscription was told
  bool taken_ = false, is_shared_ = false;
};

}  // namespace memreel::cuda
