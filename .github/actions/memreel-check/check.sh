#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Judges MEMREEL_TRACE by MEMREEL_ARGUMENTS. Leaves memreel.xml (JUnit, if it could be judged) and memreel.md, which is the job's
# summary, too, in a folder of its own: the outputs `directory` and `name`, that of this use of the action. Out-of-memory errors in
# MEMREEL_LOG, if that is set, are explained in both.
set -uo pipefail
name=${MEMREEL_NAME-}
if [[ -z $name ]]; then
  uses=$(printf '%s\0' "$MEMREEL_TRACE" "${MEMREEL_ARGUMENTS-}" | sha256sum)
  name=memreel-${MEMREEL_JOB:-job}-${uses:0:8}
fi
name=${name//[^A-Za-z0-9._-]/-}  # an artifact's name
directory=${RUNNER_TEMP:?}/$name
rm -rf -- "$directory"  # of an earlier use on this machine
mkdir -p -- "$directory"
if [[ -n ${GITHUB_OUTPUT-} ]]; then printf 'directory=%s\nname=%s\n' "$directory" "$name" >>"$GITHUB_OUTPUT"; fi
read -r -d '' -a arguments <<<"${MEMREEL_ARGUMENTS-}" || true  # up to the end, not the first line
memreel check "$MEMREEL_TRACE" ${arguments[@]+"${arguments[@]}"} --junit "$directory/memreel.xml" --markdown "$directory/memreel.md" \
  2> >(tee "$directory/errors" >&2)
code=$?
wait  # for tee
if [[ $code != 0 && $code != 1 ]]; then
  rm -f -- "$directory/memreel.xml"
  # Indented text is shown as it is, whatever a file's name contains.
  { printf '**GPU memory could not be judged** (exit code %s)\n\n' "$code"; sed 's/^/    /' "$directory/errors"; } >"$directory/memreel.md"
fi
rm -f -- "$directory/errors"
if [[ -n ${MEMREEL_LOG-} ]] && explained=$(memreel explain --ascii -- "$MEMREEL_LOG"; [[ $? == 1 ]]); then
  { printf '\nOut-of-memory errors in the log:\n\n'; sed 's/^/    /' <<<"$explained"; } | tee -a "$directory/memreel.md"
fi
if [[ -n ${GITHUB_STEP_SUMMARY-} ]]; then cat "$directory/memreel.md" >>"$GITHUB_STEP_SUMMARY"; fi
exit "$code"
