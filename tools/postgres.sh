#!/bin/sh
# PostgreSQL's server, for the tests of the job sync: found, installed where that is allowed, or named in one line.
set -eu

if command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    exit 0
fi
package=postgresql
root=
if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
fi
if command -v apt-get >/dev/null && $root true 2>/dev/null; then
    echo "Installing $package for the tests of sync"
    # A package that is there only for tests must not start a server of its own.
    policy=/usr/sbin/policy-rc.d
    made=
    if [ ! -e "$policy" ]; then
        made=yes
        printf '#!/bin/sh\nexit 101\n' | $root tee "$policy" >/dev/null
        $root chmod +x "$policy"
    fi
    $root apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || {
        $root apt-get update -qq || true
        $root apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1
    } || echo "PostgreSQL could not be installed: tests of sync with it will be skipped" >&2
    if [ -n "$made" ]; then
        $root rm -f "$policy"
    fi
else
    echo "sync is tested with PostgreSQL: sudo apt install $package (without it, those tests are skipped)" >&2
fi
