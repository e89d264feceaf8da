#!/bin/sh
# strace, by which tests make a sync of the broker fail. That takes root as well.
set -eu

if [ "$(id -u)" = 0 ] && ! command -v strace >/dev/null; then
    sh "$(dirname "$0")/packages.sh" "the tests of failing disks" "they are skipped" strace
fi
