#!/bin/sh
# Java 17 or newer, which Spark runs on: found, installed where that is allowed, or named in one line.
set -eu
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

if "$java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'; then
    exit 0
fi
package=openjdk-17-jre-headless
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $package for Spark"
    apt-get install -y -qq "$package" >/dev/null 2>&1 || {
        apt-get update -qq
        apt-get install -y -qq "$package" >/dev/null 2>&1
    } || echo "Java 17 could not be installed: what needs Spark is left out" >&2
else
    echo "Spark needs Java 17: sudo apt install $package (without it, what needs Spark is left out)" >&2
fi
