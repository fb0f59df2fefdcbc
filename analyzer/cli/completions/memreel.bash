# Bash completion for memreel. Options are read from the program's own help, so they are never out of date.
_memreel() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(memreel --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p') record attach detach view" -- "$word")
    return
  fi
  case $before in
    --by) mapfile -t COMPREPLY < <(compgen -W 'stack line function module thread stream pool device' -- "$word") && return ;;
    --what-if) mapfile -t COMPREPLY < <(compgen -W 'empty_cache@step empty_cache@every: empty_cache@oom no-empty_cache pool.exact' -- "$word") && return ;;
    --policy | --allocators)
      mapfile -t COMPREPLY < <(compgen -W "$(memreel replay --help | sed -n '/^Policies/,/^$/s/^  \([a-z][a-z.]*\) .*/\1/p')" -- "$word")
      return
      ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W "$(memreel "$command" --help | sed -n '/^Formats:/,/^$/s/^  \([a-z.]*\) .*/\1/p')" -- "$word")
      return
      ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(memreel "$command" --help | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _memreel memreel
