// SPDX-License-Identifier: Apache-2.0
// Work submitted to streams. This GPU's addresses have no memory behind them, so nothing is copied; host functions run
// at once.
#include "tests/fake/abi.h"

extern "C" {

fake::Status cuMemcpyHtoD_v2() { return fake::success; }
fake::Status cuMemcpyHtoDAsync_v2() { return fake::success; }
fake::Status cuMemcpyDtoH_v2() { return fake::success; }
fake::Status cuMemcpyDtoHAsync_v2() { return fake::success; }
fake::Status cuMemcpyDtoD_v2() { return fake::success; }
fake::Status cuMemcpyDtoDAsync_v2() { return fake::success; }
fake::Status cuMemsetD8_v2() { return fake::success; }
fake::Status cuMemsetD8Async() { return fake::success; }
fake::Status cuMemsetD32_v2() { return fake::success; }
fake::Status cuStreamQuery() { return fake::success; }
fake::Status cuLaunchHostFunc(void* /*stream*/, void (*function)(void*), void* data) {
  function(data);
  return fake::success;
}
fake::Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = 0;
  return fake::success;
}
}
