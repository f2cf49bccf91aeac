# shellcheck shell=bash
# Completion of h5spec for bash. Commands and options are those of `h5spec --help` and
# `h5spec COMMAND --help`.

_h5spec() {
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} words=''
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $previous in
    --blend) words='none box tent cos gauss' ;;
    --device) words='auto cpu cuda' ;;
    --format) words='png overlay geojson csv tiff all' ;;
    --io) words='auto direct buffered gds' ;;
    --on-damage) words='report fail' ;;
    --names) words='keep number' ;;
    --pictures) words='auto all maps none' ;;
    --progress) words='auto yes no' ;;
    --taper) words='rectangular hann' ;;
    --features) words='basic spectral' ;;
    --task) words='auto' ;;
    --bins | --cell | --colours | --feature | --group | --group-regex | --groups | --limit | --live-every | --max-size | --memory | --min-roi | --min-tissue | \
        --opacity | --range | --roi-class | --sigma | --slide | --stride | --threads | --title | --url | --width | --window | -j) return ;;
    -o | --output | --list | --live | --csv | --failed | --key | --limits | --meta | --multiqc | --roi) ;;
    *)
        if [[ $COMP_CWORD -eq 1 && $current != -* ]]; then
            words="help $("$program" --help 2>/dev/null | sed -nE 's/^  ([a-z]+)  +[a-z].*/\1/p')"
        elif [[ $current == -* ]]; then
            [[ $command != -* ]] || command=run # may be left out
            words=$("$program" "$command" --help 2>/dev/null | sed -nE 's/^  (-., |    )(--[a-z0-9-]+).*/\2/p')
        fi
        ;;
    esac
    if [[ $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
    if [[ ! $words || ($COMP_CWORD -eq 1 && $current != -*) ]]; then
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _h5spec h5spec
