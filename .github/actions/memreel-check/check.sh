#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Judges MEMREEL_TRACE by MEMREEL_ARGUMENTS. Leaves memreel.xml (JUnit) and memreel.md, which is the job's summary, too.
# Out-of-memory errors in MEMREEL_LOG, if that is set, are explained in both.
set -uo pipefail
read -ra arguments <<<"${MEMREEL_ARGUMENTS-}"
memreel check "$MEMREEL_TRACE" "${arguments[@]}" --junit memreel.xml --markdown memreel.md
code=$?
if [[ -n ${MEMREEL_LOG-} ]] && explained=$(memreel explain --ascii -- "$MEMREEL_LOG"; [[ $? == 1 ]]); then
  # Indented text is shown as it is, whatever the log contains.
  { printf '\nOut-of-memory errors in the log:\n\n'; sed 's/^/    /' <<<"$explained"; } | tee -a memreel.md
fi
if [[ -f memreel.md && -n ${GITHUB_STEP_SUMMARY-} ]]; then cat memreel.md >>"$GITHUB_STEP_SUMMARY"; fi
exit "$code"
