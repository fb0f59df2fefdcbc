// Names that a program passes to NVTX, as numbers in Recorder::names().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

// 0 if nothing is recorded, there is no name, or there is no room for it. Names are cut at 256 bytes; non-ASCII
// characters in wide names become question marks, as names only serve recognition.

std::uint64_t number_of(std::string_view name);
std::uint64_t number_of(const char* name);
std::uint64_t number_of(const wchar_t* name);
/// `type` is one of the message_* constants.
std::uint64_t number_of(std::int64_t type, const Message& message);
std::uint64_t number_of(const Attributes* attributes);
/// The name of a call of NCCL, with its communicator if one of `payloads` says which: nccl_range() takes it apart. Else
/// `name`.
std::uint64_t with_communicator(std::uint64_t name, std::span<const Payload> payloads);

/// Takes notice of what payloads of this kind hold. Returns the kind's number.
std::uint64_t register_schema(const void* domain, const Schema* schema);

}  // namespace memreel::nvtx
