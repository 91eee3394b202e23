#!/bin/sh
# Unpack Debian unstable's Neovim and Helix into a directory, with the libraries that they need, for
# the tests of newer editors than this machine has: tests/support/newer_editors.sh DIR.
set -eu
target=$(mkdir -p "$1" && cd "$1" && pwd)
work=$target/download
. "$(dirname "$0")/sid.sh"
fetch install --download-only --no-install-recommends --yes neovim hx patchelf
for package in "$work"/cache/archives/*.deb; do
    dpkg -x "$package" "$target"
done
rm -rf "$work"
libraries=$(dirname "$(find "$target" -name 'libc.so.6' | head -n 1)")
loader=$(find "$libraries" -name 'ld-linux*' | head -n 1)
# Not LD_LIBRARY_PATH: what an editor starts is of this machine.
put() {
    "$loader" --library-path "$libraries" "$target/usr/bin/patchelf" \
        --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$3"
    printf '#!/bin/sh\n%s exec "%s" "$@"\n' "$2" "$3" >"$target/$1"
    chmod +x "$target/$1"
    "$target/$1" --version | head -n 1
}
put nvim "VIMRUNTIME='$target/usr/share/nvim/runtime'" "$target/usr/bin/nvim"
put hx "HELIX_RUNTIME='$target/usr/lib/hx/runtime'" "$target/usr/lib/hx/hx"
