#!/bin/sh
# Every published table and figure that the files in a folder allow: sh examples/papers.sh DATA OUTPUT
# JSON, text and pictures go to OUTPUT; docs/papers/ says what they show.
set -eu
data=$1 out=$2 python=${BIN:+$BIN/}python here=$(dirname "$0")
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MPLBACKEND=Agg
mkdir -p "$out"

run() { # NAME ARGUMENTS: what the script prints is kept beside what it writes
  name=$1
  shift
  echo "== $name"
  nice "$python" "$here/$name.py" "$@" > "$out/$name.txt"
}

run expectation_consistency_theory -o "$out" --runs 10
one=$data/cifar10_vgg16_verified.npz
[ ! -f "$one" ] || run verified_calibration "$one" -o "$out" --trials 12 --bins 10,20,50,100
[ ! -f "$data/cifar10_resnet20.npz" ] || run hoki_tables "$data"/cifar10_resnet20.npz -o "$out" --seeds 2
[ ! -f "$data/cifar100_resnet20.npz" ] || run corrupted_labels "$data" --seeds 10
if [ -f "$data/cifar100_resnet20.npz" ]; then
  # It exits with 1 when a cell lies outside two standard deviations, which is a result.
  run expectation_consistency_table1 "$data" --halves 10 || [ $? = 1 ]
fi
if [ -f "$data/cifar10_resnet20.npz" ] && [ -f "$data/cifar10_vgg16_bn.npz" ]; then
  run figures "$data/cifar10_resnet20.npz" "$data/cifar10_vgg16_bn.npz" -o "$out"
  run ranks_over_models "$data/cifar10_resnet20.npz" "$data/cifar10_vgg16_bn.npz"
fi
