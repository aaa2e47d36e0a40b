#!/bin/sh
# The main job on the handwritten digits, as a user would type it.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-demo_output}
mkdir -p "$OUT"

show() { printf '\n$ %s\n' "$*"; "$@"; }

show calcli inspect sample_data/digits.h5:cal
show calcli fit --method ts sample_data/digits.h5 -o "$OUT/ts.json" --force
show calcli fit --method ec sample_data/digits.h5 -o "$OUT/ec.json" --force
show calcli fit --method hoki sample_data/digits.h5 -o "$OUT/hoki.json" --force
show calcli fit --method recal sample_data/digits.h5 -o "$OUT/recal.json" --force
show calcli apply "$OUT/ts.json" sample_data/digits.h5:test -o "$OUT/calibrated.h5" --force
show calcli evaluate sample_data/digits.h5 --calibrator "$OUT/ts.json" --calibrator "$OUT/ec.json" \
  --calibrator "$OUT/hoki.json" --calibrator "$OUT/recal.json"
show calcli diagram sample_data/digits.h5 --calibrator "$OUT/ts.json"
show calcli diagram sample_data/digits.h5 --calibrator "$OUT/ts.json" -o "$OUT/reliability.png" --force
printf '\nThe calibrators, calibrated.h5 and reliability.png are in %s/.\n' "$OUT"
