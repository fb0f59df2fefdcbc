# `memreel record [OPTIONS] PROGRAM ARGUMENTS`: words from the program's name on are completed as for that program.
_memreel_record() {
  local word=$1 before=$2 i help takes_value
  help=$(COLUMNS=400 memreel record --help | grep -oE '^ +-[^ ]+( (TEXT|N))?')
  takes_value="^(-o|--backend|--when-full|--mode$(sed -nE 's/^.*(--[a-z-]+) (TEXT|N)$/|\1/p' <<<"$help" | tr -d '\n'))$"
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} =~ $takes_value ]] && ((++i)) && continue
    [[ ${COMP_WORDS[i]} == -- ]] && ((++i))
    if [[ ${COMP_WORDS[i]} != -* && $i -lt $COMP_CWORD ]]; then
      declare -F _command_offset >/dev/null && _command_offset "$i" && return
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
    fi
    ((i == COMP_CWORD)) && break
  done
  case $before in
    --backend) mapfile -t COMPREPLY < <(compgen -W 'auto cupti interpose' -- "$word") ;;
    --when-full) mapfile -t COMPREPLY < <(compgen -W 'drop block' -- "$word") ;;
    --dump-signal) mapfile -t COMPREPLY < <(compgen -W 'USR1 USR2 none' -- "$word") ;;
    -o | --output | --libcupti | --json | --openmetrics) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    *)
      if [[ $before =~ $takes_value ]]; then
        COMPREPLY=()
      elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '--[a-z-]+' <<<"$help")" -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
      fi
      ;;
  esac
}

# Bash completion for memreel. Options come from the program's own help, so they are always up to date.
_memreel() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(memreel --help | sed -n '/^Options:/,/^A TRACE/s/^  \([a-z][a-z]*\)  .*/\1/p')" -- "$word")
    return
  fi
  if [[ $command == record ]]; then
    _memreel_record "$word" "$before"
    return
  fi
  if [[ $command == attach || $command == detach || $command == dump || $command == holders || $command == top ]] && [[ $word != -* && $COMP_CWORD == 2 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(ps -o pid= -u "$(id -u)" 2>/dev/null)" -- "$word")
    return
  fi
  case $before in
    --sort) mapfile -t COMPREPLY < <(compgen -W 'live reserved growth pid' -- "$word") && return ;;
    --by) mapfile -t COMPREPLY < <(compgen -W 'stack line function module library layer category phase thread stream pool device metadata tag' -- "$word") && return ;;
    --what-if) mapfile -t COMPREPLY < <(compgen -W 'empty_cache@step empty_cache@every: empty_cache@oom no-empty_cache pool.exact' -- "$word") && return ;;
    --policy | --allocators)
      mapfile -t COMPREPLY < <(compgen -W "$(memreel replay --help | sed -n '/^Policies/,/^$/s/^  \([a-z][a-z.]*\) .*/\1/p')" -- "$word")
      return
      ;;
    --capacity)
      [[ $command == predict ]] || { COMPREPLY=() && return; }
      mapfile -t COMPREPLY < <(compgen -W "$(memreel predict --help | sed -n '/^Cards:/,/^$/s/^\(Cards:\)\{0,1\}//p')" -- "$word")
      return
      ;;
    --format)
      if [[ $command == report ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'text json markdown html' -- "$word")
        return
      fi
      mapfile -t COMPREPLY < <(compgen -W "$(memreel "$command" --help | sed -n '/^Formats:/,/^$/s/^  \([a-z.]*\) .*/\1/p')" -- "$word")
      return
      ;;
  esac
  local part=()  # of `memreel fleet`
  [[ $command == fleet && $COMP_CWORD -gt 2 && ${COMP_WORDS[2]} =~ ^(map|settings|merge)$ ]] && part=("${COMP_WORDS[2]}")
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(memreel "$command" "${part[@]}" --help | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word")
  elif [[ $command == fleet && $COMP_CWORD == 2 ]]; then
    mapfile -t COMPREPLY < <(compgen -f -W "$(memreel fleet --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\{1,\}\) .*/\1/p')" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _memreel memreel
