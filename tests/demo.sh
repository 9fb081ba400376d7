#!/usr/bin/env bash
# The product, seen, on one host: a Debian disk, packed as people publish it (qcow2 inside xz), comes over HTTP and
# becomes a raw disk, then an image in a registry, then a VM to log in to. An ISO boots beside an empty disk. A
# registry is switched off in the middle of a pull. Where there are usual tools for a step, they do the same beside it.
#
#   tests/demo.sh PATH-OF-CORACLE      virt-launcher lies beside it
#
# Each step says how long it took. It works in a folder of its own, with settings, a store and VMs of its own, and
# ends what it started, however it ends. Pictures of screens are kept in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/nginx.sh
source tests/registry.sh
source tests/demo-disks.sh
source tests/demo-images.sh
source tests/demo-vms.sh

here=$PWD
coracle=$(realpath "$1")
cache=${CORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coracle}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/coracle-demo.XXXXXX")
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE

main() {
    # Nothing of the user's own: no store, no settings, no logins, no VMs.
    export CORACLE_CACHE=$cache HOME=$work/home CORACLE_HOME=$work/vms
    unset CORACLE_STORE CORACLE_LAUNCHER SOURCE_DATE_EPOCH RUST_LOG
    unset DOCKER_CONFIG REGISTRY_AUTH_FILE CONTAINERS_REGISTRIES_CONF SSH_AUTH_SOCK
    unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
    mkdir "$HOME" "$work/www"
    PATH=${coracle%/*}:$PATH

    step "A small Debian disk, made from packages (once; kept in $cache)"
    publish_disk
    cd "$work"

    step "A disk over HTTP becomes a raw disk"
    convert_disk
    step "The same by hand: three commands, and two files that are not the disk"
    convert_by_hand

    step "The disk, and an ISO of Debian's, become images in a registry"
    build_images
    step "A registry dies in the middle of a pull"
    pull_from_two
    step "An image of disk.qcow2 in a registry: coracle, and a Containerfile"
    compare_builds

    step "A VM from that registry: the terminal becomes its serial console"
    run_vm
    step "By ssh, by the guest agent, and its screen"
    reach_vm
    step "The VM shuts down"
    stop_vm
    step "An ISO beside an empty disk"
    run_iso
    tell_times
}

finish() {
    # Nothing stops this half way, nor does a terminal that is gone.
    trap '' INT TERM HUP PIPE
    set +e
    exec >/dev/null 2>&1
    end_vms
    nginx_stop
    local pid
    for pid in $(jobs -pr); do registry_stop "$pid"; done
    buildah_forget
    rm -rf "$work"
}

# A step begins, and with it the one before has ended.
steps=() times=() began=
step() {
    ended
    steps+=("$1") began=$EPOCHREALTIME
    printf '\n\033[1m%s\033[0m\n' "$1"
}
ended() {
    if [[ -z $began ]]; then return; fi
    times+=("$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }")")
    printf '\033[2m(%s s)\033[0m\n' "${times[-1]}"
    began=
}
tell_times() {
    ended
    printf '\n\033[1mSeconds\033[0m\n'
    local i
    for i in "${!steps[@]}"; do printf '%8s  %s\n' "${times[i]}" "${steps[i]}"; done
    printf '%8s  all of it\n' "$SECONDS"
}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() {
    printf '$ %s\n' "$*"
    "$@"
}
# Runs a command and keeps its seconds and its largest memory (KiB) in `took` and `rss`.
measure() {
    local status=0
    /usr/bin/time -o "$work/time" -f '%e %M' "$@" || status=$?
    if ((status)); then exit "$status"; fi
    read -r took rss <"$work/time"
}
mib() { echo "$(($1 / 1048576)) MiB"; }

main
