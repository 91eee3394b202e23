#!/bin/sh
# The main job on a real repository: record an agent, take its work back, bring it forward,
# and check every byte. REPO is a path or a URL; without it, this repository. Only a copy in a
# temporary directory is worked on. Exit 0: everything came back; 1: it did not.
set -eu

demo=$(cd "$(dirname "$0")" && pwd)
source=${REPO:-$(dirname "$demo")}
command -v git-agent-undo >/dev/null || {
    echo "error: git-agent-undo is not on the PATH: run make demo" >&2
    exit 1
}
# The demo shows the defaults, whatever is set here.
for name in $(env | sed -n 's/^\(GITSHADOW_[A-Za-z_]*\)=.*/\1/p') \
    $(git rev-parse --local-env-vars); do
    unset "$name"
done
export GITSHADOW_DAEMON=auto GITSHADOW_ENABLED=true GIT_PAGER=cat GIT_TERMINAL_PROMPT=0

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') green=$(printf '\033[32m') red=$(printf '\033[31m')
    plain=$(printf '\033[m')
else
    bold='' green='' red='' plain=''
fi

temporary=$(mktemp -d)
work=$temporary/project
# What is taken down at the end was all begun here.
finish() {
    code=$?
    trap - EXIT
    if [ -d "$work" ]; then
        (cd "$work" && git-agent-undo daemon stop >/dev/null 2>&1) || true
    fi
    rm -rf "$temporary"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

number=0
say() {
    number=$((number + 1))
    printf '\n%s%d. %s%s\n' "$bold" "$number" "$*" "$plain"
}
run() {
    printf '$ git agent-undo %s\n' "$*"
    git agent-undo "$@"
}
files() { python3 "$demo/fingerprint.py" "$1"; }
# What belongs to the user alone: HEAD, the index, branches, tags, stash, configuration, hooks.
theirs() {
    (
        cd "$work"
        git for-each-ref | sed '/refs\/agent-undo\//d'
        find .git/HEAD .git/index .git/config .git/hooks .git/logs -type f -exec sha256sum {} + |
            sort
    )
}
short() { sha256sum "$1" | cut -c -16; }
failed=0
# verdict WHAT EXPECTED FOUND: compare two listings and say so
verdict() {
    if cmp -s "$2" "$3"; then
        printf '  %sok%s    %-44s %s = %s\n' "$green" "$plain" "$1" "$(short "$2")" "$(short "$3")"
    else
        printf '  %sBAD%s   %-44s %s ≠ %s\n' "$red" "$plain" "$1" "$(short "$2")" "$(short "$3")"
        diff "$2" "$3" || true
        failed=1
    fi
}

# A copy of a directory without commits (a source archive, a fresh `git init`).
copy_files() {
    git init -q "$work"
    git --git-dir="$work/.git" --work-tree="$source" add -A
    git -C "$work" -c user.name=demo -c user.email=demo@example.invalid \
        -c commit.gpgsign=false -c core.hooksPath=/dev/null commit -qm 'A copy'
    git -C "$work" reset -q --hard
}

say "A copy of a real repository, in a temporary directory; the original stays as it is."
if [ -d "$source" ] && [ -z "$(git ls-remote "$source" HEAD 2>/dev/null)" ]; then
    copy_files
else
    # A linked object would have its time changed in the original too.
    git clone -q --no-hardlinks "$source" "$work"
fi
cd "$work"
printf '  %s files of %s\n' "$(git ls-files | wc -l)" "$source"
# shellcheck disable=SC2046 # the names have no blanks
set -- $(python3 "$demo/agent.py" pick "$work")
[ $# -eq 4 ] || exit 1
cp -a "$work" "$temporary/expected"
printf 'A line that you wrote while the agent was at work.\n' >>"$temporary/expected/$1"
files "$temporary/expected" >"$temporary/before"
theirs >"$temporary/theirs"

say "Set up: one command; a daemon watches from now on."
run init
run status

say "An agent works, through its own hooks; you edit one of its files meanwhile."
python3 "$demo/agent.py" work "$work" "$@"
run flush
files "$work" >"$temporary/agent"

say "What happened: turns with their prompts, and what you wrote; the newest first."
run log

say "Who wrote what: every write, with how sure that is."
run log --events

say "One of them in full: what changed, by whom, and how that is known."
event=$(git agent-undo log -n 1 --json --agent claude-code --kind modify -- "$1" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["seq"])')
run show "$event"

say "Line by line: the agent's first line, with what it had been told; yours is not the agent's."
run blame --prompt -L 1,2 -L "$(wc -l <"$1"),+1" "$1"

say "The panic button: the agent's last turn goes, your line stays."
run oops --yes
files "$work" >"$temporary/oops"

say "Changed your mind? The agent's work comes back, your line still there."
run redo --yes
files "$work" >"$temporary/redo"

say "And away with it again."
run oops --yes
files "$work" >"$temporary/again"

say "Did every byte, mode and link come back? (SHA-256 of a listing with one of each file)"
verdict "after oops: as before, and your line" "$temporary/before" "$temporary/oops"
verdict "after redo: what the agent and you had left" "$temporary/agent" "$temporary/redo"
verdict "after oops again: as before, and your line" "$temporary/before" "$temporary/again"
theirs >"$temporary/theirs.now"
verdict "HEAD, index, branches, config, hooks" "$temporary/theirs" "$temporary/theirs.now"
if cmp -s "$temporary/before" "$temporary/agent"; then
    printf '  %sBAD%s   the agent changed nothing, so nothing was shown\n' "$red" "$plain"
    failed=1
fi
git fsck --strict --no-dangling 2>&1 | grep -v '^notice: ' || true
if [ "$failed" -eq 0 ]; then
    printf '\n%severy byte is back%s\n' "$green" "$plain"
else
    printf '\n%ssomething is not as it was%s\n' "$red" "$plain"
fi
exit "$failed"
