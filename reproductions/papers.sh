#!/bin/sh
# Every published table and figure that the files in a folder allow: sh reproductions/papers.sh DATA OUTPUT
# JSON, text and pictures go to OUTPUT; reproductions/papers_pages.py makes docs/papers/ of them.
set -eu
data=$1 out=$2 python=${BIN:+$BIN/}python here=$(dirname "$0")
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MPLBACKEND=Agg
mkdir -p "$out"
[ -d "$data" ] || { echo "$data: no such folder; the pages are made of what is stored in $out"; exit 0; }

run() { # NAME ARGUMENTS: what the script prints is kept beside what it writes
  name=$1
  shift
  echo "== $name"
  "$python" "$here/$name.py" "$@" -o "$out" > "$out/$name.txt"
}

have() { # FILES of DATA: those that are there, as paths
  for file in "$@"; do
    [ ! -f "$data/$file.npz" ] || echo "$data/$file.npz"
  done
}

# The longest beside all others: two processes.
one=$(have cifar10_vgg16_verified)
[ -z "$one" ] || run verified_calibration "$one" --trials 40 --bins 10,20,50,100 &
verified=$!
trap 'kill $verified 2>/dev/null || true' EXIT

run expectation_consistency_theory --runs 10
if [ -f "$data/cifar100_resnet20.npz" ]; then
  run corrupted_labels "$data" --seeds 10
  # It exits with 1 when a cell lies outside two standard deviations, which is a result.
  run expectation_consistency_table1 "$data" --halves 10 || [ $? = 1 ]
fi
some=$(have cifar10_resnet20 cifar100_resnet20)
if [ -n "$some" ]; then
  run hoki_tables $some --seeds 2
  run guo_tables $some
fi
moved=$(have cifar10_resnet20_transformed)
[ -z "$moved" ] || run recal_figures "$moved"
two=$(have cifar10_resnet20 cifar10_vgg16_bn)
if [ "$(echo "$two" | wc -w)" = 2 ]; then
  run figures $two
  run ranks_over_models $two
fi
wait "$verified"
trap - EXIT
