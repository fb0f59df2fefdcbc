#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts MEMREEL_DIRECTORY/memreel.md into the comment on PULL_REQUEST that an earlier run of this use of the action made, or into a
# new one. A hidden line with MEMREEL_NAME tells them apart. A comment that can't be made fails no job.
set -uo pipefail
marker="<!-- memreel check $MEMREEL_NAME -->"
body=$MEMREEL_DIRECTORY/comment
{ printf '%s\n' "$marker"; head -c 60000 "$MEMREEL_DIRECTORY/memreel.md"; } >"$body"  # GitHub takes 65,536 characters
# Of this token's own comments only.
address=$(MARKER=$marker gh pr view "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --json comments --jq \
  '[.comments[] | select(.viewerDidAuthor and (.body | startswith(env.MARKER))) | .url] | last // ""') &&
  if [[ $address == *#issuecomment-* ]]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/${address##*#issuecomment-}" -F "body=@$body"
  else
    gh pr comment "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --body-file "$body"
  fi || echo "::warning::memreel could not comment on the pull request; the result is in the job's summary"
rm -f -- "$body"
exit 0
