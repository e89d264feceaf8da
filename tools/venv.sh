#!/bin/sh
# Make a virtual environment: venv.sh PYTHON FOLDER. Works on a bare Debian or Ubuntu too, where the module
# that fills a new environment is a package of its own.
set -eu
python=$1
folder=$2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Mainstem needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $package"
        apt-get install -y -qq "$package" >/dev/null 2>&1 || {
            apt-get update -qq
            apt-get install -y -qq "$package" >/dev/null
        }
    else
        echo "$package is missing; install it first: sudo apt install $package" >&2
        exit 1
    fi
fi
"$python" -m venv "$folder"
