#!/bin/sh
# Java 17 or newer, which Spark runs on.
set -eu
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

if ! "$java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'; then
    # Newer systems have a newer one only.
    sh "$(dirname "$0")/packages.sh" Spark "what needs Spark is left out" openjdk-17-jre-headless default-jre-headless
fi
