# Sourced with `work`, an absolute directory: `fetch` is an apt-get that knows Debian unstable alone,
# from the archive that the machine's apt reads, and nothing that is installed here.
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
archive=$(apt-get indextargets --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "main" && $1 ~ /\/debian\/?$/ { print $1; exit }')
[ -n "$archive" ] || { echo "error: apt knows no Debian archive here" >&2; exit 1; }
key=/usr/share/keyrings/debian-archive-keyring.gpg
printf '%s\n' "deb [signed-by=$key] $archive sid main" "deb-src [signed-by=$key] $archive sid main" \
    >"$work/sources.list"
: >"$work/status"
fetch() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Dir::State::status="$work/status" -o APT::Sandbox::User=root \
        -o Debug::NoLocking=1 "$@"
}
fetch update
