#!/usr/bin/env bash
# The main job, seen: a Debian disk, packed as people publish it (qcow2 inside xz), comes over HTTP and lands as a raw
# disk in one pass. Then the same by hand, with the usual three tools. The disk and an ISO become images, beside what
# people do for that; a registry is switched off in the middle of a pull. Usage: tests/demo.sh PATH-OF-CORACLE
#
# It works in a folder of its own, with settings and a store of its own, and ends what it started.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/nginx.sh
source tests/registry.sh
source tests/demo-images.sh

coracle=$(realpath "$1")
cache=${CORACLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/coracle}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/coracle-demo.XXXXXX")
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE

finish() {
    # Nothing stops this half way, nor does a terminal that is gone.
    trap '' INT TERM HUP PIPE
    set +e
    exec >/dev/null 2>&1
    nginx_stop
    local pid
    for pid in $(jobs -pr); do registry_stop "$pid"; done
    buildah_forget
    rm -rf "$work"
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

# Nothing of the user's own: no store, no settings, no logins.
export CORACLE_CACHE=$cache HOME=$work/home
unset CORACLE_STORE SOURCE_DATE_EPOCH RUST_LOG DOCKER_CONFIG REGISTRY_AUTH_FILE CONTAINERS_REGISTRIES_CONF
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR
mkdir "$HOME"

say "A small Debian disk, made from packages (once; kept in $cache)"
disk=$(images/guests/debian/build demo)
packed=${disk%.raw}.qcow2.xz
if [[ ! -f $packed ]]; then
    echo "packing it as disk.qcow2.xz"
    qemu-img convert -O qcow2 "$disk" "$work/disk.qcow2"
    xz -T0 -3 -c "$work/disk.qcow2" >"$work/packed"
    rm "$work/disk.qcow2"
    mv "$work/packed" "$packed"
fi
mkdir "$work/www"
ln -s "$packed" "$work/www/disk.qcow2.xz"
nginx_start "$work/www" "$work/nginx"
url=http://127.0.0.1:$nginx_port/disk.qcow2.xz
echo "$(mib "$(stat -Lc %s "$packed")") at $url"

cd "$work"
PATH=${coracle%/*}:$PATH
say "One command"
echo "\$ coracle convert --json $url disk.img >report.json"
measure coracle convert --json "$url" disk.img >report.json
our_time=$took our_rss=$rss our_sent=$(nginx_sent nginx) our_extra=$(jq .spool_peak report.json)
jq -r '"\(.flow): \(.bytes_read) bytes read, \(.bytes_written) written, \(.spool_peak) spooled"' report.json

say "What it is"
show coracle inspect disk.img

say "Is it the same disk?"
show qemu-img compare -f raw -F raw disk.img "$disk"

say "By hand: three commands, and two files that are not the disk"
by_hand() {
    printf '$ %s\n' "curl -o disk.qcow2.xz $url" "xz -T0 -d disk.qcow2.xz" \
        "qemu-img convert -W -m 8 -O raw disk.qcow2 hand.img"
    measure bash -euo pipefail -c '
        curl -fsS -o disk.qcow2.xz "$1"
        xz -T0 -dk disk.qcow2.xz
        qemu-img convert -W -m 8 -O raw disk.qcow2 hand.img
        sync hand.img' by-hand "$url"
}
by_hand
hand_sent=$(nginx_sent nginx)
qemu-img compare -q -f raw -F raw hand.img disk.img
hand_extra=$(($(stat -c %s disk.qcow2.xz) + $(stat -c %s disk.qcow2)))

say "Side by side"
printf '%-22s %14s %14s\n' '' coracle 'by hand'
printf '%-22s %14s %14s\n' seconds "$our_time" "$took"
printf '%-22s %14s %14s\n' 'over the network' "$(mib "$our_sent")" "$(mib "$hand_sent")"
printf '%-22s %14s %14s\n' 'extra disk' "$(mib "$our_extra")" "$(mib "$hand_extra")"
printf '%-22s %14s %14s\n' 'largest memory' "$((our_rss / 1024)) MiB" "$((rss / 1024)) MiB"
printf '%-22s %14s %14s\n' 'disk.img holds' "$(du -m disk.img | cut -f1) MiB" "$(du -m hand.img | cut -f1) MiB"

images
