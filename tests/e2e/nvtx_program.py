# SPDX-License-Identifier: Apache-2.0
"""A program that uses NVTX, on machines without its headers: what they do to find a tool, and to call it."""

import shutil
import subprocess

from recorded import FAKE

SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);

/* nvtx3/nvtxDetail/nvtxTypes.h: a tool replaces the functions of these modules, by number. */
typedef void (*function)(void);
static function core[16], core2[16], *core_slots[16], *core2_slots[16];
static int functions(unsigned module, function*** table, unsigned* count) {
  *table = module == 1 ? core_slots : core2_slots;
  *count = module == 1 || module == 5 ? 16 : 0;
  return *count != 0;
}
static const struct { size_t size; int (*functions)(unsigned, function***, unsigned*); } callbacks = {sizeof callbacks, functions};
static const void* export_table(unsigned number) { return number == 1 ? &callbacks : NULL; }

static struct { unsigned short version, size; unsigned category; int color_type; unsigned color; int payload_type, reserved;
  unsigned long long payload; int message_type; const void* message; } attributes = {3, sizeof attributes};
static const void* name(const char* text) { return ((const void* (*)(void*, const char*))core2[10])(NULL, text); }
static void mark(const void* name) {
  attributes.message_type = 3;  /* a registered string */
  attributes.message = name;
  ((void (*)(void*, const void*))core2[1])(NULL, &attributes);
}
static int push(const char* name) { return ((int (*)(const char*))core[9])(name); }
static int pop(void) { return ((int (*)(void))core[11])(); }

static int use_gpu(void) {
  void* context;
  unsigned long long pointer;
  return cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&pointer, 1 << 20);
}

int main(int count, char** arguments) {
  void* tool = getenv("NVTX_INJECTION64_PATH") ? dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW) : NULL;
  int (*begin)(const void* (*)(unsigned)) = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  for (int i = 0; i < 16; ++i) core_slots[i] = &core[i], core2_slots[i] = &core2[i];
  if (begin == NULL || !begin(export_table) || core[9] == NULL || core2[10] == NULL) return 9;
  if (count > 1 && strcmp(arguments[1], "endless") == 0) {
    unsigned long long pointer;
    const void* names[40];
    char text[32];
    if (use_gpu()) return 1;
    for (int i = 0; i < 40; ++i) snprintf(text, sizeof text, "range %d", i), names[i] = name(text);
    puts("ready"), fflush(stdout);
    for (;;) {
      if (cuMemAlloc_v2(&pointer, 512) || cuMemFree_v2(pointer)) return 1;
      mark(names[39]);
      usleep(1000);
    }
  }
  push("before");  /* so that a new table of names would have fewer */
  const void* registered = name("registered");
  push("workers");
  for (int i = 0; i < 2; ++i) {
    pid_t child = fork();
    int status;
    if (child == 0) {
      if (i == 1) push("in the child");
      if (use_gpu()) _exit(1);
      mark(registered);
      if (i == 1) pop();
      pop();
      usleep(200000);
      exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) return 2;
  }
  if (use_gpu()) return 1;  /* afterwards: who uses CUDA has no children that do */
  pop();
  pop();
  return 0;
}
"""


def nvtx_program(test):
    """Its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        test.skipTest("there is no compiler here")
    program = test.directory / "nvtx-program"
    subprocess.run([compiler, "-g", "-O1", "-o", program, test.file("nvtx_program.c", SOURCE.encode()), f"-L{FAKE}",
                    "-l:libcuda.so.1", "-ldl"], check=True)
    return program
