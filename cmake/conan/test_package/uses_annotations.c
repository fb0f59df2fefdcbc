// SPDX-License-Identifier: Apache-2.0
#include <memreel/memreel.h>
#include <stdio.h>

int main(void) {
  memreel_pool pool = memreel_pool_create("activations", MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
  memreel_alloc(pool, (const void*)4096, 512, 0);
  memreel_free(pool, (const void*)4096);
  printf("%s\n", pool == 0 ? "not recorded" : "recorded");
  return 0;
}
