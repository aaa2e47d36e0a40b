#!/usr/bin/env bash
# Installs calcli for action.yml: .ci/install.sh FOLDER_OR_REQUIREMENT
set -euo pipefail
if [[ "$1" =~ ^calcli([^[:alnum:]._/-]|$) ]]; then
    program="an unrelated program of the package index"
    echo "calcli gate: install: $1 is $program; expected calcli-calibration" >&2
    exit 2
fi
python -m pip install --quiet -- "$1"
