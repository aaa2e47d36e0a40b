#!/usr/bin/env bash
# The gate of action.yml: evaluates, writes the JSON and the job's summary, and ends with calcli's exit code.
# Reads BUNDLE, CALIBRATOR, MAX, MIN, JSON; lists are separated by blanks.
set -euo pipefail
set -f # a name with a star is calcli's to expand
: "${BUNDLE:?names no score file}"
options=()
for limit in ${MAX:-}; do options+=("--max=$limit"); done
for limit in ${MIN:-}; do options+=("--min=$limit"); done
[ "${#options[@]}" -gt 0 ] || { echo "calcli gate: neither max nor min is given, so nothing could fail" >&2; exit 2; }
[ -z "${CALIBRATOR:-}" ] || options+=("--calibrator=$CALIBRATOR")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
# shellcheck disable=SC2086
calcli evaluate "${options[@]}" --json -- $BUNDLE >"${JSON:=calcli-evaluation.json}" 2>"$log" || code=$?
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
{ # names in the log give GitHub's runner no commands
    echo "::stop-commands::$token"
    cat "$log"
    echo "::$token::"
} >&2
{
    case $code in
    0) echo "### calcli: all limits hold" ;;
    5) echo "### calcli: a limit was crossed" ;;
    *) echo "### calcli: no evaluation (exit code $code)" ;;
    esac
    echo
    sed 's/^/    /' "$log" # indented: no name can end the block
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
exit "$code"
