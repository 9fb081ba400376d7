# shellcheck shell=bash
# Folders of built programs in the cache: one for each content of the sources, and whole or not there.
#
#   build_once FOLDER TEXT COMMAND               prints FOLDER, which `COMMAND PART` fills, as the folder PART, if it is not there
#   compile NAME LINKER-WORDS OUTPUT PACKAGE...  a program of the module that the current folder belongs to

build_once() {
    local where=$1
    if is_built "$where"; then
        # Kept as long as somebody uses it (see forget_old).
        touch "$where/whole"
        echo "$where"
        return
    fi
    mkdir -p "$caches"
    # One build at a time on a machine: a second one finds the first one's work.
    exec 9>"$caches/lock"
    if ! flock -n 9; then
        echo "cluster: waiting for another build to end ($caches/lock)" >&2
        flock 9
    fi
    if ! is_built "$where"; then build_whole "$@"; fi
    exec 9>&-
    echo "$where"
}

# Builds into a folder of its own, which gets the name only when nothing is missing.
build_whole() {
    local where=$1 text=$2 command=$3
    go_is_new_enough
    echo "cluster: building $text as $where" >&2
    rm -rf "$caches"/building.*
    part=$(mktemp -d "$caches/building.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    "$command" "$part" >&2
    forget_old
    rm -rf "$where"
    touch "$part/whole"
    chmod 755 "$part"
    mv "$part" "$where"
    trap - EXIT
}

go_is_new_enough() {
    local want
    want=$(sed -n 's/^go //p' "$here/go.mod")
    command -v go >/dev/null || die "there is no Go here; run: .ci/setup cluster"
    # In another folder Go says its own version; in this one it fetches the one that is wanted, or says why it cannot.
    (cd "$here" && go version >/dev/null) ||
        die "go.mod wants Go $want, and here is $(cd / && go version); run: .ci/setup cluster"
}

compile() {
    local name=$1 linker=$2 output=$3 begin
    shift 3
    begin=$(uptime_now)
    CGO_ENABLED=${CGO_ENABLED:-0} GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false' \
        go build -p 2 -trimpath -ldflags "-s -w $linker" -o "$output" "$@"
    printf '%7.1f s  %s\n' "$(bc <<<"$(uptime_now) - $begin")" "$name"
}

# Builds that nothing has asked for in a fortnight; 450 MB each.
forget_old() {
    local folder
    for folder in "$caches"/*/; do
        [[ -e $folder/whole && $(find "$folder/whole" -mtime +14) ]] && rm -rf "$folder"
    done
    return 0
}
