# shellcheck shell=bash
# Completion of wsi2h5 and h5spec for bash. All it knows comes from --help, whose layout
# common/base/command.h states: commands, options, and what the argument of an option is.

_wsi2h5() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${COMP_WORDS[0]} words='' files='' argument='' commands help
    help=$("$program" --help 2>/dev/null)
    commands=$(sed -nE 's/^  ([a-z]+)  +[a-z].*/\1/p' <<<"$help")
    if [[ $commands && $COMP_CWORD -eq 1 && $current != -* ]]; then
        words="help $commands" files=1
    else
        if grep -qx -e "${COMP_WORDS[1]}" <<<"$commands"; then
            help=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null)
        elif [[ $commands ]]; then # the word run may be left out
            help=$("$program" run --help 2>/dev/null)
        fi
        argument=$(sed -nE 's/^  (-., |    )(--[a-z0-9-]+) ([^ ]+).*/\1\2 \3/p' <<<"$help" |
            awk -v option="$previous" '$1 == option "," || $(NF - 1) == option { print $NF }')
        case $argument in
        *'|'*) words=$(tr '|' '\n' <<<"${argument%%[[,]*}" | grep '^[a-z]') ;;
        ?*) [[ $argument != FILE* && $argument != DIR && $previous != -o && $previous != --output ]] || files=1 ;;
        *) if [[ $current == -* ]]; then
                words=$(sed -nE 's/^  (-., |    )(--[a-z0-9-]+).*/\2/p' <<<"$help")
            else
                files=1
            fi ;;
        esac
    fi
    COMPREPLY=()
    [[ ! $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    if [[ $files ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _wsi2h5 wsi2h5 h5spec
