#!/bin/sh
# PostgreSQL's server, for the tests of the job sync.
set -eu

if ! command -v postgres >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    sh "$(dirname "$0")/packages.sh" "the tests of sync" "those with PostgreSQL are skipped" postgresql
fi
