// SPDX-License-Identifier: Apache-2.0
// A driver that predates stream-ordered allocation: it lacks nearly everything.
extern "C" int cuInit(unsigned) { return 0; }  // NOLINT(readability-identifier-naming): the driver's
