#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs MEMREEL_WHEEL into an environment of its own, and puts its programs on the path of the steps that follow.
set -euo pipefail
environment=$RUNNER_TEMP/memreel
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check "$MEMREEL_WHEEL"
echo "$environment/bin" >>"$GITHUB_PATH"
