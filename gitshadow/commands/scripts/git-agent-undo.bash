# Completion of git-agent-undo for Bash; also of `git agent-undo`, by Git's own completion.

# Offer what a command prints: a form, a word and a note per line.
__git_agent_undo_offer ()
{
	local form word note
	COMPREPLY=()
	while IFS=$'\t' read -r form word note; do
		case $form in
		plain) COMPREPLY+=("$word") ;;
		path)
			COMPREPLY+=("$word")
			compopt -o filenames 2>/dev/null
			;;
		esac # any other form: nothing here, so that Bash offers files
	done < <("$@" </dev/null 2>/dev/null)
	case ${#COMPREPLY[@]},${COMPREPLY[0]-} in
	1,*/) compopt -o nospace 2>/dev/null ;;
	*) compopt +o nospace -o nosort 2>/dev/null ;;
	esac
}

# Called by Git's completion, with its `words`, `cword` and the place of the verb among them.
_git_agent_undo ()
{
	local from=${__git_cmd_idx-}
	if [ -z "$from" ]; then
		for ((from = 1; from < cword; from++)); do
			[ "${words[from]}" = agent-undo ] && break
		done
	fi
	__git_agent_undo_offer git ${__git_C_args:+"${__git_C_args[@]}"} \
		agent-undo completion words bash -- "${words[@]:from+1:cword-from}"
}

__git_agent_undo_alone ()
{
	local cur words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n =: cur words cword
	fi
	__git_agent_undo_offer "${words[0]}" completion words bash -- "${words[@]:1:cword}"
}

complete -o bashdefault -o default -F __git_agent_undo_alone git-agent-undo
