#!/usr/bin/env bash
# Brings the libraries of the page into vendor/, unchanged, and writes vendor/manifest.json: what each package is called,
# what npm says its archive hashes to, and the hash of each file that was taken. Only what the page loads is taken: of
# noVNC, the modules that its client imports.
#
#   src/page/assets/vendor.sh     needs npm, jq, tar and sha256sum, and whatever registry npm is set to
#
# Another version is another line below; a known version whose archive is another one is refused.
set -euo pipefail
cd "$(dirname "$0")"

packages=(@novnc/novnc@1.7.0 @xterm/xterm@6.0.0 @xterm/addon-fit@0.11.0)

main() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    known=$PWD/vendor/manifest.json
    mkdir "$work/vendor"
    local package
    for package in "${packages[@]}"; do
        take "$package"
    done
    (cd "$work/vendor" && manifest) >"$work/manifest.json"
    mv "$work/manifest.json" "$work/vendor/manifest.json"
    rm -rf vendor
    cp -r "$work/vendor" vendor
    du -sh --apparent-size vendor
}

# take "@scope/name@version": its archive, its integrity, and the files of it that the page loads.
take() {
    local package=$1 name=${1%@*} before
    local from=$work/$name to=$work/vendor/${name##*/}
    mkdir -p "$from" "$to"
    (cd "$from" && npm pack --json "$package" 2>/dev/null) | jq '.[0]' >"$from.json"
    tar -xzf "$from/$(jq -r .filename "$from.json")" -C "$from" --strip-components=1
    if [[ -e $known ]]; then
        before=$(jq -r --arg package "$package" '.[] | select(.name + "@" + .version == $package) | .integrity' "$known")
        [[ -z $before || $before == "$(jq -r .integrity "$from.json")" ]] ||
            die "$package is another archive than the one that vendor/manifest.json knows"
    fi
    case $name in
    @novnc/novnc)
        copy "$from" "$to" LICENSE.txt AUTHORS docs/LICENSE.MPL-2.0 vendor/pako/LICENSE
        imports "$from" "$to" core/rfb.js
        ;;
    @xterm/xterm) copy "$from" "$to" LICENSE lib/xterm.mjs css/xterm.css ;;
    @xterm/addon-fit) copy "$from" "$to" LICENSE lib/addon-fit.mjs ;;
    *) die "which files of $name does the page load?" ;;
    esac
}

# copy FROM TO FILE...
copy() {
    local from=$1 to=$2 file
    shift 2
    for file; do
        install -D -m 644 "$from/$file" "$to/$file"
    done
}

# imports FROM TO FILE: a module, and what it imports, and what that does.
imports() {
    local from=$1 to=$2 file=$3 next
    [[ ! -e $to/$file ]] || return 0
    copy "$from" "$to" "$file"
    while read -r next; do
        imports "$from" "$to" "$(realpath -m --relative-to "$from" "$from/$(dirname "$file")/$next")"
    done < <(sed -nE "s/^(import|export) .*from ['\"]([^'\"]+)['\"];?\$/\2/p" "$from/$file")
}

# The manifest, of the folder that it is called in.
manifest() {
    local package name
    for package in "${packages[@]}"; do
        name=${package%@*}
        find "${name##*/}" -type f -printf '%p\n' | LC_ALL=C sort | xargs sha256sum |
            jq -Rn '[inputs | split("  ") | {(.[1]): .[0]}] | add' >"$work/files.json"
        jq --slurpfile files "$work/files.json" --slurpfile of "$work/$name/package.json" \
            '{name, version, license: $of[0].license, integrity, files: $files[0]}' "$work/$name.json"
    done | jq -s .
}

die() {
    echo "vendor.sh: $*" >&2
    exit 1
}

main "$@"
