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

ten=$(have cifar10_vgg16_verified cifar10_vgg16_bn cifar10_resnet20 cifar10_resnet20_transformed)
hundred=$(have cifar100_resnet20 cifar100_resnet56 cifar100_vgg19_bn cifar100_repvgg_a2 cifar100_densenet_bc_100_netcal)

# The longest beside all others: two processes.
[ -z "$ten" ] || run verified_calibration $ten --trials 100 &
verified=$!
trap 'kill $verified 2>/dev/null || true' EXIT

run expectation_consistency_theory --runs 10
if [ -n "$ten$hundred" ]; then
  run temperatures $ten $hundred --halves 4
  run guo_tables $hundred $ten --halves 4 --draw cifar10_resnet20,cifar100_resnet20
  run hoki_tables $hundred $ten --seeds 2 --halves 4
fi
if [ -f "$data/cifar100_resnet20.npz" ]; then
  run corrupted_labels "$data" --seeds 10
  # It exits with 1 when a cell lies outside two standard deviations, which is a result.
  run expectation_consistency_table1 "$data" --halves 10 || [ $? = 1 ]
fi
moved=$(have cifar10_resnet20_transformed)
[ -z "$moved" ] || run recal_figures "$moved" --halves 12 --rounds 25
[ -z "$moved" ] || run second_opinion "$data"
wait "$verified"
trap - EXIT
