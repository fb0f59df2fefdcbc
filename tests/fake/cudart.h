// SPDX-License-Identifier: Apache-2.0
// State shared by the parts of the fake libcudart.so: each thread's device and last error.
#pragma once

#include "tests/fake/abi.h"

namespace fake {

inline DevicePointer* device(void** pointer) { return reinterpret_cast<DevicePointer*>(pointer); }
inline DevicePointer device(void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

/// The device selected by the calling thread, initially 0.
int current_device();
void set_device(int number);

/// Makes the primary context of the thread's device current, as every runtime call that needs one does.
void use_context();

/// Records a failure for cudaGetLastError(). Runtime errors use the driver's numbers. Returns `status`.
Status noted(Status status);

}  // namespace fake
