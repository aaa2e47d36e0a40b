#!/bin/sh
# The report pages that the documentation shows: sh docs/reports.sh DATA OUTPUT
# Of the sample data always; of a CIFAR-100 ResNet-20 where DATA holds cifar100_resnet20.npz.
set -eu
sample=$(cd "$(dirname "$0")/../sample_data" && pwd)/digits.h5
mkdir -p "$2"
out=$(cd "$2" && pwd) data=$1/cifar100_resnet20.npz
[ ! -f "$data" ] || data=$(cd "$1" && pwd)/cifar100_resnet20.npz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

page() { # BUNDLE PAGE: two calibrators fitted on its part cal, and the report of its part test
  calcli fit "$1" -q > /dev/null
  calcli fit --method ts "$1" -q > /dev/null
  calcli report "$1" -c "${1%.h5}.auto.json" -c "${1%.h5}.ts.json" -o "$2.html" -q > /dev/null # its name is in the page
  mv -f "$2.html" "$out/$2.html"
  echo "$out/$2.html"
}

cp "$sample" digits.h5
page digits.h5 sample
if [ -f "$data" ]; then
  calcli extract "$data" -o cifar100_resnet20.h5 --split cal=0.5 --split test=0.5 -q > /dev/null
  page cifar100_resnet20.h5 cifar100_resnet20
fi
