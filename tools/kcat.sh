#!/bin/sh
# kcat, one of the clients that tests talk and log in with.
set -eu

if ! command -v kcat >/dev/null; then
    sh "$(dirname "$0")/packages.sh" "the tests with kcat" "they are skipped" kcat
fi
