#!/bin/sh
# The main job on the handwritten digits, as a user would type it; one screen, the result at its end.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-demo_output}
mkdir -p "$OUT"

show() { printf '$ %s\n' "$*"; "$@"; }

for method in ts ec hoki recal; do
  show calcli fit --method $method sample_data/digits.h5 -o "$OUT/$method.json" --force -q
done
show calcli apply "$OUT/ts.json" sample_data/digits.h5:test -o "$OUT/calibrated.h5" --force -q
show calcli diagram sample_data/digits.h5 -c "$OUT/ts.json" -o "$OUT/reliability.png" --force -q
show calcli report sample_data/digits.h5 -c "$OUT/ts.json" -o "$OUT/report.html" --force -q
show calcli evaluate sample_data/digits.h5 -c "$OUT/ts.json" -c "$OUT/hoki.json" -m accuracy -m nll -m ece
show calcli evaluate sample_data/digits.h5 -c "$OUT/ts.json" -q
show calcli evaluate sample_data/decisions.jsonl:team -q
printf '\nThe page of this result is %s.\n' "$OUT/report.html"
