#!/usr/bin/env bash
# Validates examples/kubernetes against the schema of Kubernetes, in a virtual environment under target/.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/tools/kubernetes
[ -x "$venv/bin/kubernetes-validate" ] ||
    { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet 'kubernetes-validate==1.37.0'; }
"$venv/bin/kubernetes-validate" --strict examples/kubernetes/*.yaml
