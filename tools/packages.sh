#!/bin/sh
# Debian packages that are missing: installed where that is allowed, or named in one line. Never an error.
#   sh tools/packages.sh "what they are for" "what happens without them" "PACKAGES" ["PACKAGES" instead]...
set -eu
purpose=$1 without=$2
shift 2

root=
if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
fi
if ! command -v apt-get >/dev/null || ! $root true 2>/dev/null; then
    echo "Missing for $purpose: sudo apt install $1 (without it, $without)" >&2
    exit 0
fi

install() {
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 \
        </dev/null >/dev/null 2>&1
}

# The first choice, if need be once it is known what there is; then the others.
install_any() {
    if install "$1"; then
        return 0
    fi
    $root apt-get update -qq >/dev/null 2>&1 || true
    for packages in "$@"; do
        if install "$packages"; then
            return 0
        fi
    done
    return 1
}

# A package that is there for us must not start a service of its own, now or when the machine starts.
policy=/usr/sbin/policy-rc.d
mark="# Left behind by an installation for Mainstem: remove it."
remove_policy() {
    if grep -qs "$mark" "$policy"; then
        $root rm -f "$policy"
    fi
}
remove_policy
echo "Installing $1 for $purpose"
if [ ! -e "$policy" ]; then
    trap remove_policy EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" | $root tee "$policy" >/dev/null 2>&1 && $root chmod +x "$policy" || true
fi
if install_any "$@"; then
    # shellcheck disable=SC2086
    $root systemctl disable $1 >/dev/null 2>&1 || true  # named as their packages; others have none
else
    echo "$1 could not be installed: $without" >&2
fi
