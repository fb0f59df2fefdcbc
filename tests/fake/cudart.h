// What the parts of the fake libcudart.so share: each thread's device, and its last error.
#pragma once

#include "tests/fake/abi.h"

namespace fake {

inline DevicePointer* device(void** pointer) { return reinterpret_cast<DevicePointer*>(pointer); }
inline DevicePointer device(void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

/// The device that the calling thread has chosen, 0 at first.
int current_device();
void set_device(int number);

/// Makes the primary context of the thread's device current, as every runtime call that needs one does.
void use_context();

/// Remembers a failure for cudaGetLastError(). Errors of the runtime have the driver's numbers. Returns `status`.
Status noted(Status status);

}  // namespace fake
