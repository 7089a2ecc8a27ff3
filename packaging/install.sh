#!/bin/sh
# Installs leyden: finds the archive of this machine, verifies its checksum and signature, and copies bin/, lib/ and share/.
#
#   sh install.sh --url https://releases.example.com/leyden
#   sh install.sh --url file:///media/usb/leyden --key HEX --prefix /opt/leyden
#
# Nothing is run before it is verified, nothing is written outside the prefix, and no other rights are asked for than
# those of the caller, except with --sudo.
set -eu

# `cargo xtask dist` writes the version, and the release's key if it signs.
version=
key=
url=${LEYDEN_URL-}
prefix=${LEYDEN_PREFIX-${HOME:-}/.local}
target=
sudo=
signed=yes

usage() {
    cat <<'END'
usage: sh install.sh --url URL [OPTIONS]

  --url URL        folder of the release: https://, http://, file:// or a path (or LEYDEN_URL)
  --version V      version to install; this script's own by default
  --prefix DIR     folder to install to (or LEYDEN_PREFIX); ~/.local by default
  --key HEX        key of the release, 64 hexadecimal digits from a source that you trust
  --no-signature   verify the checksum alone: finds damage, but not a forged release
  --target T       archive of another target, such as x86_64-unknown-linux-gnu
  --sudo           copy with sudo, for a prefix of root
END
}

fail() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --no-signature) signed=no; shift; continue ;;
    --sudo) sudo=sudo; shift; continue ;;
    --url | --version | --prefix | --key | --target) [ $# -ge 2 ] || fail "$1: a value is missing" ;;
    *) usage >&2; exit 2 ;;
    esac
    case $1 in
    --url) url=$2 ;;
    --version) version=$2 ;;
    --prefix) prefix=$2 ;;
    --key) key=$2 ;;
    --target) target=$2 ;;
    esac
    shift 2
done

[ -n "$url" ] || { usage >&2; exit 2; }
[ -n "$version" ] || fail "no version" "--version names it, such as 0.1.0"
case $prefix in
/*) ;;
*) fail "--prefix $prefix: not an absolute path" ;;
esac
if [ -z "$target" ]; then
    [ "$(uname -s)" = Linux ] || fail "no archive for $(uname -s)" "docs/install.md says how to build from source"
    case $(uname -m) in
    x86_64 | amd64) target=x86_64-unknown-linux-musl ;;
    aarch64 | arm64) target=aarch64-unknown-linux-musl ;;
    *) fail "no archive for $(uname -m)" "docs/install.md says how to build from source" ;;
    esac
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# get NAME: copies a file of the release to the work folder.
get() {
    case $url in
    file://*) cp -- "${url#file://}/$1" "$work/$1" ;;
    /* | ./* | ../*) cp -- "$url/$1" "$work/$1" ;;
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl --fail --silent --show-error --location --retry 3 --output "$work/$1" "$url/$1"
        elif command -v wget >/dev/null; then
            wget -q -O "$work/$1" "$url/$1"
        else
            fail "neither curl nor wget is installed" "fetch the files in another way, and name their folder: --url file:///…"
        fi
        ;;
    *) fail "--url $url: want https://, http://, file:// or a path" ;;
    esac || fail "cannot get $url/$1"
}

# check_signature: compares the signature of SHA256SUMS with the key.
check_signature() {
    case $key in
    *[!0-9a-f]*) fail "--key: want 64 hexadecimal digits (0-9, a-f)" ;;
    esac
    [ ${#key} -eq 64 ] || fail "--key: want 64 hexadecimal digits, not ${#key}"
    command -v openssl >/dev/null ||
        fail "openssl is not installed, so the signature cannot be verified" "install openssl 3, or verify SHA256SUMS.minisig with minisign"
    # The key as openssl reads it: the bytes of RFC 8410 before those of the key.
    rest=302a300506032b6570032100$key
    while [ -n "$rest" ]; do
        pair=${rest%"${rest#??}"}
        rest=${rest#??}
        # shellcheck disable=SC2059
        printf "\\$(printf %03o "0x$pair")"
    done >"$work/key.der"
    get SHA256SUMS.sig
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin -in "$work/SHA256SUMS" \
        -sigfile "$work/SHA256SUMS.sig" >"$work/said" 2>&1 ||
        fail "SHA256SUMS is not signed with the key $key: $(head -n 1 "$work/said")"
}

name=leyden-$version-$target
get SHA256SUMS
if [ $signed = yes ]; then
    [ -n "$key" ] || fail "no key to verify the release with" "--key HEX names it; --no-signature goes without"
    check_signature
fi
get "$name.tar.gz"
(
    cd "$work"
    awk -v name="$name.tar.gz" '$2 == name' SHA256SUMS >wanted
    [ -s wanted ] || fail "SHA256SUMS has no $name.tar.gz"
    sha256sum -c wanted >/dev/null 2>&1 || fail "$name.tar.gz: its checksum is not that in SHA256SUMS"
    tar -xzf "$name.tar.gz"
)
# The unit names the program where it is installed.
unit=$work/$name/lib/systemd/system/leyden.service
escaped=$(printf '%s' "$prefix" | sed 's/[&|\\]/\\&/g')
sed "s|/usr/local/bin/leyden|\"$escaped/bin/leyden\"|" "$unit" >"$work/unit" && cat "$work/unit" >"$unit"
"$work/$name/bin/leyden" --version >/dev/null || fail "the program does not run here" "--target names the archive of another target"
$sudo mkdir -p "$prefix"
# A running program cannot be overwritten; it can be replaced.
for file in $(cd "$work/$name" && find . -type f | sed 's|^\./||'); do
    $sudo mkdir -p "$prefix/$(dirname "$file")"
    $sudo cp "$work/$name/$file" "$prefix/$file.new"
    $sudo mv -f "$prefix/$file.new" "$prefix/$file"
done
echo "leyden $version is in $prefix/bin/leyden"
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "add it to the path: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
