#!/bin/sh
# kcat, one of the clients that tests log in with: found, installed where that is allowed, or named in one line.
set -eu

if command -v kcat >/dev/null; then
    exit 0
fi
root=
if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
fi
if command -v apt-get >/dev/null && $root true 2>/dev/null; then
    echo "Installing kcat for the tests of logins"
    $root apt-get install -y -qq --no-install-recommends kcat >/dev/null 2>&1 || {
        $root apt-get update -qq || true
        $root apt-get install -y -qq --no-install-recommends kcat >/dev/null 2>&1
    } || echo "kcat could not be installed: tests of logins with it will be skipped" >&2
else
    echo "Logins are tested with kcat too: sudo apt install kcat (without it, those tests are skipped)" >&2
fi
