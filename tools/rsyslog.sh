#!/bin/sh
# rsyslogd with its Kafka output, for the example logs: found, installed where that is allowed, or named in one line.
set -eu

if [ -x /usr/sbin/rsyslogd ] && ls /usr/lib/*/rsyslog/omkafka.so >/dev/null 2>&1; then
    exit 0
fi
packages="rsyslog rsyslog-kafka"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $packages for the example logs"
    # Installed for an example, it must not begin to log this machine.
    policy=/usr/sbin/policy-rc.d
    made=
    if [ ! -e "$policy" ]; then
        made=yes
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1 || {
        apt-get update -qq || true
        apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1
    } || echo "rsyslog could not be installed: the test of the example logs will be skipped" >&2
    if [ -n "$made" ]; then
        rm -f "$policy"
    fi
else
    echo "The example logs needs rsyslog: sudo apt install $packages (without it, its test is skipped)" >&2
fi
