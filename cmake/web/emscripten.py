# SPDX-License-Identifier: Apache-2.0
# The tools that emscripten uses (emcc --em-config): Debian's, with the compiler explained in cmake/web/toolchain.cmake.
import os

EMSCRIPTEN_ROOT = '/usr/share/emscripten'
LLVM_ROOT = '/usr/lib/llvm-19/bin'
BINARYEN_ROOT = '/usr'
NODE_JS = '/usr/bin/node'
FROZEN_CACHE = True
os.environ.setdefault('NODE_PATH', '/usr/share/nodejs')  # Debian's modules, in case node is not Debian's
