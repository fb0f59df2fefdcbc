# Which programs emscripten uses (emcc --em-config): those of Debian, with the compiler that cmake/web/toolchain.cmake says why.
import os

EMSCRIPTEN_ROOT = '/usr/share/emscripten'
LLVM_ROOT = '/usr/lib/llvm-19/bin'
BINARYEN_ROOT = '/usr'
NODE_JS = '/usr/bin/node'
FROZEN_CACHE = True
os.environ.setdefault('NODE_PATH', '/usr/share/nodejs')  # Debian's modules, for a node that is not Debian's
