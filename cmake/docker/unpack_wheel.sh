#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: unpack_wheel.sh WHEEL PREFIX
# Unpacks the wheel to the layout of `cmake --install`: PREFIX/bin, lib, share; the Python package is in
# PREFIX/share/memreel/python.
set -eu
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
python3 -m venv "$unpacked/tools"
"$unpacked/tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile --target "$unpacked/python" "$1"
mkdir -p "$(dirname "$2")"
mv "$unpacked/python/memreel/_dist" "$2"
mkdir -p "$2/share/memreel/python"
mv "$unpacked/python/memreel" "$2/share/memreel/python"
