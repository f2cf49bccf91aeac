# shellcheck shell=bash
# Completion of wsi2h5 for bash. The options are those of `wsi2h5 --help`.

_wsi2h5() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=''
    COMPREPLY=()
    case $previous in
    --codec) words='deflate lz4 zstd jpeg none' ;;
    --on-damage) words='report fail' ;;
    --progress) words='auto yes no' ;;
    --task) words='auto' ;;
    --group-bytes | --level | --mpp | --mpp-override | --mpp-tolerance | --stripe-rows | --tissue-min-area | --tissue-thresholds | --threads | -j) return ;;
    -o | --output | --list | --key | --tissue-mask) ;;
    *) [[ $current != -* ]] ||
        words=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -nE 's/^  (-., |    )(--[a-z0-9-]+).*/\2/p') ;;
    esac
    if [[ $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _wsi2h5 wsi2h5
