// SPDX-License-Identifier: Apache-2.0
// Names that a program passes to NVTX, as numbers in Recorder::names().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collector/nvtx/nvtx_api.h"

namespace memreel::nvtx {

/// The number of a name that there is no room for: marks with it are lost, and counted.
inline constexpr std::uint64_t lost_name = 0xFFFF'FFFF;

// 0 if nothing is recorded or there is no name. Names are cut at 256 bytes; non-ASCII characters in wide names become
// question marks, as names only serve recognition.

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

// NVTX's memory extension (nvtx3/nvToolsExtMem.h): heaps that a program registers become custom pools in the trace, and
// regions registered in them become their allocations.

/// Installs our functions in one copy of the memory extension. `device` returns the current CUDA ordinal of the calling
/// thread, negative if there is none: NVTX does not say where a heap's memory is, so memreel assumes the device that
/// was current at registration. False for other extensions, which then run without a tool.
bool take_over_memory(const ExtensionInfo& info, int (*device)());

// NVTX marks and ranges, as marks in the trace.

/// Installs our functions in one copy of NVTX. False if it is of an unknown version; it then runs without a tool.
bool take_over(GetExportTable get_table);

/// Likewise in one copy of the payload extension, by which a range can end, too. False for other extensions.
bool take_over_payloads(const ExtensionInfo& info);

}  // namespace memreel::nvtx
