#!/usr/bin/env bash
# Judges MEMREEL_TRACE by MEMREEL_ARGUMENTS. Leaves memreel.xml (JUnit) and memreel.md, which is the job's summary, too.
set -uo pipefail
read -ra arguments <<<"${MEMREEL_ARGUMENTS-}"
memreel check "$MEMREEL_TRACE" "${arguments[@]}" --junit memreel.xml --markdown memreel.md
code=$?
if [[ -f memreel.md && -n ${GITHUB_STEP_SUMMARY-} ]]; then cat memreel.md >>"$GITHUB_STEP_SUMMARY"; fi
exit "$code"
