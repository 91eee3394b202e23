#!/bin/sh
# Build Debian unstable's git into a directory, for the tests that need a newer one than this
# machine has: tests/support/newer_git.sh DIR. It has reftables and SHA-256. Where cargo is, it has
# what is written in Rust too, which `extensions.compatObjectFormat` needs; where libcurl's headers
# are, HTTP.
set -eu
target=$(mkdir -p "$1" && cd "$1" && pwd)
work=$target/build
. "$(dirname "$0")/sid.sh"
cd "$work"
fetch source --download-only git
tar -xf git_*.orig.tar.xz
cd git-*/
set -- NO_EXPAT=1 NO_OPENSSL=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1 NO_REGEX=NeedsStartEnd
command -v cargo >/dev/null || set -- "$@" NO_RUST=1
command -v curl-config >/dev/null || set -- "$@" NO_CURL=1
make -s -j"$(nproc)" prefix="$target" "$@" install >/dev/null
rm -rf "$work"
"$target/bin/git" version
