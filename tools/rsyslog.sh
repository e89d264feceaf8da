#!/bin/sh
# rsyslogd with its Kafka output, for the example logs.
set -eu

if [ ! -x /usr/sbin/rsyslogd ] || ! ls /usr/lib/*/rsyslog/omkafka.so >/dev/null 2>&1; then
    sh "$(dirname "$0")/packages.sh" "the example logs" "its test is skipped" "rsyslog rsyslog-kafka"
fi
