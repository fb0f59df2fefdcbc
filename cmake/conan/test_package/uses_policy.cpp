// SPDX-License-Identifier: Apache-2.0
#include <memreel/policy.h>

int main() { return MEMREEL_POLICY_VERSION == 0; }
