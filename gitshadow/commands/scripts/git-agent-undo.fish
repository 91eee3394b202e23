# Completion of git-agent-undo for fish; fish's own completion of git asks it for `git agent-undo`.

function __git_agent_undo_offer
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l plain (string unescape -- $typed)
    or set plain $typed
    set -l verb (contains -i -- agent-undo $before)
    or set verb 1
    set -l program $before[1..$verb]
    set -e before[1..$verb]
    for line in ($program completion words fish -- $before "$plain" </dev/null 2>/dev/null)
        set -l parts (string split -m 2 \t -- $line)
        if test "$parts[1]" = file
            __fish_complete_path $typed
        else
            printf '%s\t%s\n' $parts[2] $parts[3]
        end
    end
end

complete -c git-agent-undo -f -k -a '(__git_agent_undo_offer)'

# That one version does not ask for git-* programs (fish-shell issue 9457).
if test "$version" = 3.6.0
    complete -c git -n '__fish_seen_subcommand_from agent-undo' -f -k -a '(__git_agent_undo_offer)'
end
