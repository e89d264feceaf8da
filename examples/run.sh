#!/bin/sh
# One example from its input to a picture of its output: sh examples/run.sh behaviour [--count 20000]
# The broker is $MAINSTEM_BOOTSTRAP, or 127.0.0.1:9092 (mainstem serve). The pipeline goes on where it ended.
set -eu
here=$(dirname "$0")
name=${1:?which example: behaviour, logs, metrics or orders}
shift
PATH=$here/../.venv/bin:$PATH

python "$here/generate.py" "$name" "$@"
mainstem pipeline run "$here/$name/$name.sql" --once
python "$here/plot.py" "$name"
