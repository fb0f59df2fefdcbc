// Names that a program gives to NVTX, as numbers of Recorder::names().
#pragma once

#include <cstdint>
#include <string_view>

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

// 0 when nothing is recorded, there is no name, or no room for it. Names are cut at 256 bytes; what is not ASCII in
// wide ones becomes a question mark: names are for finding them again.

std::uint64_t number_of(std::string_view name);
std::uint64_t number_of(const char* name);
std::uint64_t number_of(const wchar_t* name);
/// `type` is one of message_*.
std::uint64_t number_of(std::int64_t type, const Message& message);
std::uint64_t number_of(const Attributes* attributes);

}  // namespace memreel::nvtx
