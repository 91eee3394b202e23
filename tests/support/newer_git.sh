#!/bin/sh
# Build Debian unstable's git into a directory, for the tests that need a newer one than this
# machine has: tests/support/newer_git.sh DIR. Reads the archive that the machine's apt reads.
# It has reftables and SHA-256. Where cargo is, it has what is written in Rust too, which
# `extensions.compatObjectFormat` needs; where libcurl's headers are, HTTP.
set -eu
target=$(mkdir -p "$1" && cd "$1" && pwd)
work=$target/build
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
archive=$(apt-get indextargets --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "main" && $1 ~ /\/debian\/?$/ { print $1; exit }')
[ -n "$archive" ] || { echo "error: apt knows no Debian archive here" >&2; exit 1; }
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb-src [signed-by=$key] $archive sid main" >"$work/sources.list"
: >"$work/status"
fetch() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User=root "$@"
}
cd "$work"
fetch update
fetch source --download-only git
tar -xf git_*.orig.tar.xz
cd git-*/
set -- NO_EXPAT=1 NO_OPENSSL=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1 NO_REGEX=NeedsStartEnd
command -v cargo >/dev/null || set -- "$@" NO_RUST=1
command -v curl-config >/dev/null || set -- "$@" NO_CURL=1
make -s -j"$(nproc)" prefix="$target" "$@" install >/dev/null
rm -rf "$work"
"$target/bin/git" version
