# shellcheck shell=bash
# To be sourced: of an unpacked Debian, the files that some programs need, and nothing else.

# Copies paths (globs below the first folder) to the second, with the libraries of those that have some, links and all.
# Usage: closure FROM TO PATH...
closure() {
    local from=$1 to=$2 path
    shift 2
    local -a found=()
    for path in "$@"; do
        # A path that names nothing is a package that has changed: better told now than missed in a pod.
        mapfile -t -O "${#found[@]}" found < <(cd "$from" && compgen -G "$path" || echo "MISSING $path")
    done
    if printf '%s\n' "${found[@]}" | grep '^MISSING' >&2; then return 1; fi
    { printf '/%s\n' "${found[@]}" && libraries "$from" "${found[@]}"; } | sort -u | with_links "$from" |
        sort -u | tar -C "$from" --no-recursion --files-from=- -cf - | tar -C "$to" --no-same-owner -xf -
}

# The libraries of programs, as the programs of that Debian itself find them.
libraries() {
    local from=$1 file
    shift
    for file in "$@"; do
        if [[ -f $from/$file && $(head -c 4 "$from/$file" | tr -d '\0') == $'\x7fELF' ]]; then
            enter "$from" /usr/bin/ldd "/$file" | awk '/=> not found/ { print "missing: " $1 >"/dev/stderr"; exit 1 }
                $2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\/lib/ { print $1 }'
        fi
    done
}

# Runs a program in that Debian: as root, or as someone who is root there alone.
enter() {
    local root=$1
    shift
    if ((EUID == 0)); then chroot "$root" "$@"; else unshare --map-root-user chroot "$root" "$@"; fi
}

# Each path, and what it leads to if it is a link, without the slash it begins with; folders with all that is in them.
with_links() {
    local from=$1 path target
    while read -r path; do
        while :; do
            (cd "$from" && find ".$path" -printf '%P\n' | sed "s|^|${path#/}/|; s|/$||")
            [[ -L $from$path ]] || break
            target=$(readlink "$from$path")
            if [[ $target == /* ]]; then path=$target; else path=$(realpath -sm "$(dirname "$path")/$target"); fi
        done
    done
}
