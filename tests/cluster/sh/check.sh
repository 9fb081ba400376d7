# shellcheck shell=bash
# Checks of a cluster, one line each: for selftest and csi/selftest. Pods are those of the namespace try.

failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check NAME COMMAND...    within half a minute, since what a pod or a service says may take a moment
check() {
    local name=$1 try
    shift
    for ((try = 0; try < 60; try++)); do
        if "$@" >"$work/out" 2>&1; then
            echo "ok      $name"
            return
        fi
        sleep 0.5
    done
    failed=1
    echo "FAILED  $name: $*"
    sed 's/^/        /' "$work/out"
}

# says PATTERN WORDS...    kubectl with these words, or a program of ours, prints it
says() {
    local pattern=$1
    shift
    if [[ $1 == /* ]]; then "$@" >"$work/said" 2>&1; else kube -n try "$@" >"$work/said" 2>&1; fi || true
    cat "$work/said"
    grep -q -- "$pattern" "$work/said"
}

ready() { kube -n try wait "pod/$1" --for condition=Ready --timeout 10s; }

nothing_left() {
    "$here/left" >"$work/after"
    diff "$work/before" "$work/after"
}
